// The panel of one znode: Stat, ACL, data as text, JSON or hex, and what can be changed.

import { dataAddress, get, wholeData } from "./api.js";
import { card, complain, grid, h, link, table } from "./dom.js";
import { bytes, count, decoded, hex, json, parentOf, span, time, utf8, visible } from "./format.js";
import { createDialog, deleteAllDialog, deleteDialog, setDialog } from "./edit.js";

const LARGEST_SHOWN = 1 << 20; // bytes of data that "Show all" puts into the page

export async function showNode(place, path, view) {
  let node;
  try {
    node = await get("node", { path });
  } catch (error) {
    place.replaceChildren(h("div", { class: "head" }, h("h2", null, visible(path))),
      h("p", { class: "bad" }, error.message));
    return;
  }
  complain(null);
  const { stat } = node;
  const owner = stat.ephemeralOwner === "0x0" ? null : stat.ephemeralOwner;
  const age = (ms) => h("span", null, time(ms), h("br"), h("span", { class: "muted" }, `${span(Math.max(0, Date.now() - ms))} ago`));
  place.replaceChildren(
    h("div", { class: "head" },
      h("div", null, h("h2", null, visible(path)), h("p", { class: "muted" },
        h("span", { class: "badge on" }, node.kind), " ",
        node.ttl ? `deleted ${span(node.ttl)} after its last change when empty · ` : "",
        `${bytes(stat.dataLength)} · ${count(stat.numChildren)} children`)),
      tools(node, view)),
    data(node),
    card("Stat", grid([
      ["Created (czxid)", h("span", null, h("span", { class: "mono" }, stat.czxid), h("br"), age(stat.ctime))],
      ["Modified (mzxid)", h("span", null, h("span", { class: "mono" }, stat.mzxid), h("br"), age(stat.mtime))],
      ["Children changed (pzxid)", h("span", { class: "mono" }, stat.pzxid)],
      ["Data version", stat.version],
      ["Children version (cversion)", stat.cversion],
      ["ACL version (aversion)", stat.aversion],
      ["Ephemeral owner", owner ? link(owner, () => view.session(owner), `Session ${owner}`) : "none"],
      ["Data length", `${count(stat.dataLength)} bytes`],
      ["Children", count(stat.numChildren)],
    ])),
    card("ACL", table("ACL", [
      ["Scheme", (entry) => entry.scheme],
      ["Identity", (entry) => visible(entry.id), "path"],
      ["Permissions", (entry) => entry.permissions.join(", ") || "none"],
    ], node.acl, "The ACL is empty: everybody may do everything.")));
}

function tools(node, view) {
  const { path, stat } = node;
  const buttons = [h("button", { type: "button", onclick: () => view.open(path) }, "Reload")];
  if (view.write) {
    const done = (next) => view.changed(next);
    buttons.push(
      h("button", { type: "button", onclick: () => createDialog(path, done) }, "Create child…"),
      h("button", { type: "button", onclick: () => setDialog(node, done) }, "Set data…"));
    if (path !== "/") {
      buttons.push(stat.numChildren
        ? h("button", { type: "button", class: "danger", onclick: () => deleteAllDialog(path, view) }, "Delete all below…")
        : h("button", { type: "button", class: "danger", onclick: () => deleteDialog(node, () => done(parentOf(path))) }, "Delete…"));
    }
  }
  return h("div", { class: "buttons" }, buttons);
}

function data(node) {
  if (node.data === null) return card("Data", h("p", { class: "empty" }, "null: this znode was created without data."));
  let content = decoded(node.data);
  let cut = node.truncated;
  const body = h("div");
  const note = h("p", { class: "muted below" });
  const forms = { text: "Text", json: "JSON", hex: "Hex" };
  const buttons = Object.entries(forms).map(([form, name]) =>
    h("button", { type: "button", "data-form": form, onclick: () => show(form) }, name));
  const show = (wanted) => {
    const text = utf8(content, cut);
    const pretty = text === null || cut ? null : json(text);
    const possible = { text: text !== null, json: pretty !== null, hex: true };
    const form = wanted && possible[wanted] ? wanted : pretty !== null ? "json" : text !== null ? "text" : "hex";
    for (const button of buttons) {
      button.disabled = !possible[button.dataset.form];
      button.setAttribute("aria-pressed", String(button.dataset.form === form));
    }
    const shown = form === "json" ? pretty : form === "text" ? text : hex(content);
    body.replaceChildren(content.length
      ? h("pre", { class: form === "hex" ? "data hex" : "data", tabindex: 0, "aria-label": `Data as ${forms[form]}` }, shown)
      : h("p", { class: "empty" }, "0 bytes"));
    note.replaceChildren(...(cut ? [`The first ${bytes(content.length)} of ${bytes(node.stat.dataLength)}. `,
      node.stat.dataLength <= LARGEST_SHOWN ? h("button", { type: "button", class: "link", onclick: all }, "Show all") : "Download it to see the rest."] : []));
  };
  const all = async () => {
    try {
      content = await wholeData(node.path);
      cut = false;
      show();
    } catch (error) {
      complain(error);
    }
  };
  show();
  return card("Data", [body, note],
    h("div", { class: "segmented", role: "group", "aria-label": "Show data as" }, buttons),
    node.stat.dataLength ? h("a", { href: dataAddress(node.path), download: true }, "Download") : null);
}
