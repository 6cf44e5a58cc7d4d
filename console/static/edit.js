// Dialogs that change the tree, and the view of deletions that wait for a second person.

import { get, post, wholeData } from "./api.js";
import { dataField } from "./content.js";
import { card, complain, h, say, table } from "./dom.js";
import { decoded, encoded, folded, join, plural, span, visible } from "./format.js";
import { poll } from "./poll.js";

// Shows a form; `act(values)` may throw, which is shown in the dialog. Without a `button` there is only "Close".
export function ask(title, fields, button, act, kind = "main") {
  const error = h("p", { class: "error", role: "alert" });
  const submit = button ? h("button", { type: "submit", class: kind }, button) : null;
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title", title }, folded(title, 160)), fields, error,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, submit ? "Cancel" : "Close"), submit));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!submit) return;
    submit.disabled = true;
    error.textContent = "";
    try {
      await act(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (failure) {
      error.textContent = failure.message;
    } finally {
      submit.disabled = false;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}

export const field = (name, input, note) => h("div", { class: "field" }, h("label", null, name, input), note ? h("span", { class: "muted" }, note) : null);

export function createDialog(parent, done) {
  const data = dataField(new Uint8Array());
  ask(`Create a child of ${visible(parent)}`, [
    field("Name", h("input", { name: "name", autocomplete: "off", spellcheck: "false", class: "mono" }), "A sequential znode gets a number behind its name."),
    field("Mode", h("select", { name: "mode" },
      [["persistent", "persistent"], ["sequential", "persistent, sequential"], ["container", "container"], ["ttl", "with a time to live"]]
        .map(([value, text]) => h("option", { value }, text)))),
    field("Time to live in milliseconds, for that mode", h("input", { name: "ttl", type: "number", min: 1, value: 60000 })),
    field("ACL", h("select", { name: "acl" },
      h("option", { value: "world" }, "everybody may do everything"), h("option", { value: "creator" }, "only the identities of this login"))),
    h("div", { class: "field" }, h("span", { class: "label" }, "Data"), data.element),
  ], "Create", async (values) => {
    const made = await post("create", {
      path: join(parent, values.name), data: encoded(await data.value()), mode: values.mode, ttl: Number(values.ttl) || 0, acl: values.acl,
    });
    say(`Created ${visible(made.path)}`);
    done(made.path);
  });
}

export async function setDialog(node, done) {
  let { version } = node.stat;
  let content = node.data === null ? new Uint8Array() : decoded(node.data);
  if (node.truncated) {
    try {
      ({ content, version } = await wholeData(node.path));
    } catch (error) {
      complain(error);
      return;
    }
  }
  const data = dataField(content);
  ask(`Set the data of ${visible(node.path)}`, [
    node.data === null ? h("p", { class: "warn" }, "This znode has no data (null). Once set, it has data, if only 0 bytes.") : null,
    h("div", { class: "field" }, h("span", { class: "label" }, "Data"), data.element),
    field("Version", h("input", { name: "version", type: "number", value: version }), "Refused if the znode has another version by now. -1: any."),
  ], "Set", async (values) => {
    const next = await data.value();
    await post("set", { path: node.path, data: encoded(next), version: Number(values.version) });
    say(`Set ${visible(node.path)}: ${plural(next.length, "byte")}`);
    done(node.path);
  });
}

export function deleteDialog(node, done) {
  ask(`Delete ${visible(node.path)}?`, [h("p", null, `Version ${node.stat.version}. This cannot be undone.`)], "Delete", async () => {
    await post("delete", { path: node.path, version: node.stat.version });
    say(`Deleted ${visible(node.path)}`);
    done();
  }, "danger");
}

export function deleteAllDialog(path, view) {
  ask(`Delete ${visible(path)} and everything below it?`, [
    h("p", null, "The znodes are counted now. They are deleted when this is confirmed in the view Deletions, within 10 minutes: by another user, or, where the console has no users, by typing the path again."),
  ], "Ask for the deletion", async () => {
    const asked = await post("deletions", { path });
    say(`${plural(asked.count, "znode")}: the deletion waits for its confirmation`);
    view.deletions();
  }, "danger");
}

export function deletions(app) {
  const element = h("div");
  let stop = () => {};
  const load = async () => {
    const { deletions: rows } = await get("deletions");
    app.badge("deletions", rows.length);
    if (element.contains(document.activeElement)) return; // it would lose the focus
    element.replaceChildren(card("Deletions that wait for confirmation at this proxy", table("Deletions", [
      ["Path", (row) => h("span", { title: visible(row.path) }, folded(visible(row.path))), "path"],
      ["Znodes", (row) => row.count.toLocaleString("en-US"), "n"],
      ["Asked for by", (row) => row.user || "this host"],
      ["Ends in", (row) => span(row.seconds * 1000), "n"],
      ["", (row) => h("div", { class: "buttons" },
        row.mayConfirm ? h("button", { type: "button", class: "danger", onclick: () => confirm(row) }, "Confirm…")
          : h("span", { class: "muted" }, "another user has to confirm"),
        h("button", { type: "button", onclick: () => withdraw(row) }, "Withdraw"))],
    ], rows, "None waits.")));
  };
  const confirm = (row) => ask(`Delete ${plural(row.count, "znode")}?`, [
    h("p", null, "Type the path ", h("code", null, visible(row.path)), " to confirm. This cannot be undone."),
    field("Path", h("input", { name: "path", autocomplete: "off", spellcheck: "false", class: "mono" })),
  ], `Delete ${plural(row.count, "znode")}`, async (values) => {
    const path = values.path === visible(row.path) ? row.path : values.path; // typed as it is shown
    const done = await post("deletions/confirm", { number: row.number, path, count: row.count });
    say(`Deleted ${plural(done.deleted, "znode")} of ${visible(done.path)}`);
    element.replaceChildren();
    await load();
  }, "danger");
  const withdraw = async (row) => {
    try {
      await post("deletions/withdraw", { number: row.number });
      element.replaceChildren();
      await load();
    } catch (error) {
      complain(error);
    }
  };
  return { element, show: () => { stop(); stop = poll(load); }, hide: () => stop() };
}
