// Copy, export and import of a subtree.

import { exportAddress, post } from "./api.js";
import { ask, field } from "./edit.js";
import { h, say } from "./dom.js";
import { count, join, plural, visible } from "./format.js";

const MOST_TOGETHER = 200; // znodes of one request
const MOST_BYTES = 384 << 10; // and their characters

export function copyDialog(path, done) {
  ask(`Copy ${visible(path)} with all below it`, [
    field("To the path", h("input", { name: "to", autocomplete: "off", spellcheck: "false", class: "mono", value: `${path}-copy` }),
      "Its parent has to be there, and the path itself must not."),
    h("p", { class: "muted" }, "Data, ACLs, containers and times to live are copied; versions and times begin anew, and sequential numbers from 0. Ephemerals are left out."),
  ], "Copy", async (values) => {
    const made = await post("copy", { path, to: values.to });
    say(`${plural(made.created, "znode")} created${made.ephemerals ? `, ${plural(made.ephemerals, "ephemeral")} left out` : ""}`);
    done(made.path);
  });
}

export const exportLink = (path) => h("a", { class: "button", href: exportAddress(path), download: true }, "Export");

// The znodes of an exported file. Throws if it is not complete.
export function parsed(text) {
  const lines = text.split("\n").filter(Boolean);
  let head;
  let tail;
  try {
    head = JSON.parse(lines[0]);
    tail = JSON.parse(lines.at(-1));
  } catch {
    throw new Error("This is no exported subtree.");
  }
  if (head?.["zketcd-subtree"] !== 1) throw new Error("This is no exported subtree of this release.");
  const rows = lines.slice(1, -1).map((line) => JSON.parse(line));
  if (!tail?.complete || tail.znodes !== rows.length || head.znodes !== rows.length) throw new Error("The file is not complete.");
  return { head, rows };
}

// Requests of bounded size, parents first.
function* together(rows) {
  let part = [];
  let size = 0;
  for (const row of rows) {
    const more = (row.data?.length ?? 0) + row.path.length + 100;
    if (part.length && (part.length >= MOST_TOGETHER || size + more > MOST_BYTES)) {
      yield part;
      part = [];
      size = 0;
    }
    part.push(row);
    size += more;
  }
  if (part.length) yield part;
}

export function importDialog(parent, done) {
  const progress = h("p", { class: "muted", role: "status" });
  ask(`Import below ${visible(parent)}`, [
    field("File, as Export gives it", h("input", { name: "file", type: "file", accept: ".jsonl" })),
    field("Name of the new znode", h("input", { name: "name", autocomplete: "off", spellcheck: "false", class: "mono" }),
      "Empty: as in the file. It must not be there yet."),
    field("ACLs", h("select", { name: "acl" },
      h("option", { value: "file" }, "as in the file"), h("option", { value: "world" }, "everybody may do everything"),
      h("option", { value: "creator" }, "only the identities of this login"))),
    progress,
  ], "Import", async (values) => {
    if (!values.file?.size) throw new Error("Choose a file.");
    const { head, rows } = parsed(await values.file.text());
    const name = values.name || head.path.slice(head.path.lastIndexOf("/") + 1);
    const into = head.path === "/" && !values.name ? parent : join(parent, name);
    // Without a name, what was below "/" is put below a znode that is there.
    const wanted = rows.filter((row) => row.kind !== "ephemeral" && (row.path || into !== parent));
    if (!wanted.length) throw new Error("There is nothing to create: ephemerals are left out.");
    let made = 0;
    for (const part of together(wanted)) {
      try {
        made += (await post("import", { path: into, znodes: part, acl: values.acl })).created;
      } catch (error) {
        throw new Error(`${error.message} ${count(made)} of ${plural(wanted.length, "znode")} are there now.`);
      }
      progress.textContent = `${count(made)} of ${plural(wanted.length, "znode")}`;
    }
    const left = rows.filter((row) => row.kind === "ephemeral").length;
    say(`${plural(made, "znode")} created${left ? `, ${plural(left, "ephemeral")} left out` : ""}`);
    done(into);
  });
}
