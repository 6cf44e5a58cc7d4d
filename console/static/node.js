// The panel of one znode: Stat, ACL, data as text, JSON or hex, and what can be changed. It follows the znode.

import { dataAddress, post, wholeData } from "./api.js";
import { marked, tooManyMarks } from "./content.js";
import { card, complain, grid, h, link, table } from "./dom.js";
import { createDialog, deleteAllDialog, deleteDialog, setDialog } from "./edit.js";
import { ago, bytes, count, decoded, folded, hex, join, parentOf, plural, span, time, utf8, visible } from "./format.js";
import { pretty } from "./json.js";
import { pastCard } from "./past.js";
import { copyDialog, exportLink, importDialog } from "./subtree.js";

const LARGEST_SHOWN = 1 << 20; // bytes of data that "Show all" puts into the page
const FRESH = 60000; // ms in which a change is conspicuous
const LONGEST_NAME = 48; // characters of a part of the path; the rest is folded

export class NodePanel {
  constructor(view) {
    this.view = view;
    this.element = h("section", { class: "node", "aria-label": "Selected znode", tabindex: -1 });
    this.path = null;
    this.node = null; // as it was read last; null while another one is read
    this.loading = null; // the promise of the last reading
    this.now = 0; // the proxy's clock
    this.form = null; // as which the data are shown, once the user has chosen
    this.notice = h("p", { class: "notice", role: "status", hidden: true });
  }

  // Show another znode.
  async show(path) {
    this.path = path;
    this.node = null;
    this.form = null;
    this.loading = this.reload();
    await this.loading;
  }

  async reload() {
    const { path } = this;
    let answer;
    try {
      answer = await post("look", { node: { path } });
    } catch (error) {
      answer = { node: { error: error.message }, nowMs: this.now };
    }
    if (path !== this.path) return; // another one was chosen meanwhile
    this.now = answer.nowMs;
    if (answer.node.error) {
      this.node = null;
      this.element.replaceChildren(h("div", { class: "head" }, heading(path, this.view)), h("p", { class: "bad" }, answer.node.error), this.pastOf(path));
      return;
    }
    complain(null);
    this.node = answer.node;
    this.draw();
  }

  request() {
    return this.path === null ? null : { path: this.path, mark: this.node?.mark };
  }

  // What the proxy says of the znode, each second.
  looked(asked, answer, now) {
    if (!asked || asked.path !== this.path || asked.mark !== this.node?.mark) return;
    this.now = now;
    if (answer.error) {
      if (this.node) this.gone(answer);
    } else if (!answer.same) {
      const selection = document.getSelection();
      if (this.node && !selection.isCollapsed && this.element.contains(selection.anchorNode)) {
        this.say("This znode has changed. ", "Show it", answer);
        return;
      }
      this.node = answer;
      this.draw();
    } else {
      this.notice.hidden = true;
      this.element.classList.remove("gone");
    }
    this.age();
  }

  gone(answer) {
    this.element.classList.add("gone");
    this.say(answer.status === 404 ? "This znode was deleted. Below is what it was last." : `${answer.error}. Below is what was read last.`);
  }

  say(words, button, answer) {
    this.notice.replaceChildren(words, button ? h("button", { type: "button", onclick: () => { this.node = answer; this.draw(); } }, button) : "");
    this.notice.hidden = false;
  }

  age() {
    const place = this.element.querySelector(".changed");
    const { stat } = this.node ?? {};
    for (const each of this.element.querySelectorAll("[data-since]")) each.textContent = ago(Math.max(0, this.now - Number(each.dataset.since)));
    place?.classList.toggle("fresh", this.now - (stat?.mtime ?? 0) < FRESH);
    if (place && stat?.mtime) place.textContent = `${stat.czxid === stat.mzxid ? "created" : "changed"} ${ago(Math.max(0, this.now - stat.mtime))}`;
  }

  draw() {
    const { node, view } = this;
    const { stat } = node;
    const owner = stat.ephemeralOwner === "0x0" ? null : stat.ephemeralOwner;
    const age = (ms) => h("span", null, time(ms), ms ? [h("br"), h("span", { class: "muted", "data-since": ms })] : null);
    const label = this.element.contains(document.activeElement) ? document.activeElement.innerText : null;
    const top = this.element.scrollTop;
    this.notice.hidden = true;
    this.element.classList.remove("gone");
    this.element.replaceChildren(
      h("div", { class: "head" },
        h("div", null, heading(node.path, view), h("p", { class: "muted" },
          h("span", { class: "badge on" }, node.kind), " ",
          node.ttl ? `deleted ${span(node.ttl)} after its last change when empty · ` : "",
          `${bytes(stat.dataLength)} · ${plural(stat.numChildren, "child", "children")}`,
          stat.mtime ? [" · ", h("span", { class: "changed" })] : null)),
        this.tools()),
      this.notice,
      this.data(),
      card("Stat", grid([
        ["Created (czxid)", h("span", null, h("span", { class: "mono" }, stat.czxid), h("br"), age(stat.ctime))],
        ["Modified (mzxid)", h("span", null, h("span", { class: "mono" }, stat.mzxid), h("br"), age(stat.mtime))],
        ["Children changed (pzxid)", h("span", { class: "mono" }, stat.pzxid)],
        ["Data version", stat.version],
        ["Children version (cversion)", stat.cversion],
        ["ACL version (aversion)", stat.aversion],
        ["Ephemeral owner", owner ? link(owner, () => view.session(owner), `Session ${owner}`) : "none"],
        ["Data length", plural(stat.dataLength, "byte")],
        ["Children", count(stat.numChildren)],
      ])),
      aclCard(node.acl),
      this.pastOf(node.path));
    this.element.scrollTop = top;
    if (label !== null) ([...this.element.querySelectorAll("button, a")].find((each) => each.innerText === label) ?? this.element).focus();
    this.age();
  }

  // The card about the past; it stays when the rest is drawn anew.
  pastOf(path) {
    if (!this.view.archive) return "";
    this.past ??= pastCard();
    this.past.show(path);
    return this.past.element;
  }

  tools() {
    const { view, node } = this;
    const { path, stat } = node;
    const buttons = [h("button", { type: "button", onclick: () => this.reload() }, "Reload"), exportLink(path)];
    if (view.write) {
      const done = (next) => view.changed(next);
      // The znode as it is when the button is pressed: after a change it is read again, while the buttons still stand there.
      const act = (dialog) => async () => {
        await this.loading;
        if (this.node?.path === path) dialog(this.node);
      };
      buttons.push(
        h("button", { type: "button", onclick: () => createDialog(path, done) }, "Create child…"),
        h("button", { type: "button", onclick: act((current) => setDialog(current, done)) }, "Set data…"),
        h("button", { type: "button", onclick: () => importDialog(path, done) }, "Import…"));
      if (path !== "/") {
        buttons.push(h("button", { type: "button", onclick: () => copyDialog(path, done) }, "Copy…"));
        buttons.push(stat.numChildren
          ? h("button", { type: "button", class: "danger", onclick: () => deleteAllDialog(path, view) }, "Delete all below…")
          : h("button", { type: "button", class: "danger", onclick: act((current) => deleteDialog(current, () => done(parentOf(path)))) }, "Delete…"));
      }
    }
    return h("div", { class: "buttons" }, buttons);
  }

  data() {
    const { node } = this;
    if (node.data === null) return card("Data", h("p", { class: "empty" }, "null: this znode was created without data."));
    return dataCard(decoded(node.data), {
      truncated: node.truncated, length: node.stat.dataLength, address: dataAddress(node.path),
      form: this.form, chosen: (form) => { this.form = form; },
      all: async () => {
        const { content, version } = await wholeData(node.path);
        if (version !== node.stat.version) {
          await this.reload();
          throw new Error("The znode has changed meanwhile.");
        }
        return content;
      },
    });
  }
}

// The path as links to the znodes above. Long names are folded until they are clicked.
function heading(path, view) {
  const parts = [];
  let here = "/";
  for (const name of path.split("/").filter(Boolean)) {
    here = join(here, name);
    const target = here;
    const full = visible(name);
    const short = folded(full, LONGEST_NAME);
    const text = h("button", { type: "button", class: "link crumb", title: full }, short);
    text.addEventListener("click", () => {
      if (text.textContent !== full) text.textContent = full;
      else if (target !== path) view.go(target);
    });
    parts.push("/", text);
  }
  return h("div", { class: "title" }, h("h2", { "aria-label": visible(path) }, parts.length ? parts : "/"),
    h("button", { type: "button", class: "link", onclick: () => navigator.clipboard?.writeText(path) }, "Copy path"));
}

export const aclCard = (acl) => card("ACL", table("ACL", [
  ["Scheme", (entry) => entry.scheme],
  ["Identity", (entry) => visible(entry.id), "path"],
  ["Permissions", (entry) => entry.permissions.join(", ") || "none"],
], acl, "The ACL is empty: everybody may do everything."));

// options: truncated, length, address (of a download), form, chosen(form), all() -> the whole content
export function dataCard(given, options) {
  let content = given;
  let cut = options.truncated;
  const body = h("div");
  const note = h("p", { class: "muted below" });
  const forms = { text: "Text", json: "JSON", hex: "Hex" };
  const buttons = Object.entries(forms).map(([form, name]) =>
    h("button", { type: "button", "data-form": form, onclick: () => { options.chosen?.(form); show(form); } }, name));
  const show = (wanted) => {
    let text = utf8(content, cut);
    if (text !== null && tooManyMarks(text)) text = null;
    const laid = text === null || cut ? null : pretty(text);
    const possible = { text: text !== null, json: laid !== null, hex: true };
    const form = wanted && possible[wanted] ? wanted : laid !== null ? "json" : text !== null ? "text" : "hex";
    for (const button of buttons) {
      button.disabled = !possible[button.dataset.form];
      button.setAttribute("aria-pressed", String(button.dataset.form === form));
    }
    const shown = form === "hex" ? hex(content, matchMedia("(max-width: 720px)").matches ? 8 : 16) : marked(form === "json" ? laid : text);
    body.replaceChildren(content.length
      ? h("pre", { class: form === "hex" ? "data hex" : "data", tabindex: 0, "aria-label": `Data as ${forms[form]}` }, shown)
      : h("p", { class: "empty" }, "0 bytes"));
    note.replaceChildren(...(cut ? [`The first ${bytes(content.length)} of ${bytes(options.length)}. `,
      options.all && options.length <= LARGEST_SHOWN ? h("button", { type: "button", class: "link", onclick: all }, "Show all") : "Download it to see the rest."]
      : form === "json" ? ["Laid out; the names and values are as they are stored."] : []));
  };
  const all = async () => {
    try {
      content = await options.all();
      cut = false;
      show(options.form);
    } catch (error) {
      complain(error);
    }
  };
  show(options.form);
  return card("Data", [body, note],
    h("div", { class: "segmented", role: "group", "aria-label": "Show data as" }, buttons),
    options.length && options.address ? h("a", { href: options.address, download: true }, "Download") : null);
}
