// The view "Tree": path field with completion, search, the tree, and the panel of the selected znode.

import { get } from "./api.js";
import { complain, h, link, say } from "./dom.js";
import { count, join, parentOf, visible } from "./format.js";
import { showNode } from "./node.js";
import { Tree } from "./tree.js";

const COMPLETIONS = 20;

export function browse(app) {
  const panel = h("section", { class: "node", "aria-label": "Selected znode", tabindex: -1 });
  const field = h("input", { name: "path", "aria-label": "Path", autocomplete: "off", spellcheck: "false", list: "completions", value: "/" });
  const choices = h("datalist", { id: "completions" });
  const results = h("div", { class: "results", hidden: true });
  let search = 0; // the search under way; another one, or "Stop", ends it

  const view = {
    write: app.session.write,
    session: (id) => app.go("sessions", id),
    open: async (path, quiet) => {
      field.value = path;
      if (!quiet) app.note("tree", path);
      await showNode(panel, path, view);
    },
    changed: async (path) => {
      await tree.refresh(parentOf(path));
      await tree.refresh(path);
      await tree.reveal(path);
      await view.open(path);
    },
    deletions: () => app.go("deletions"),
  };
  const tree = new Tree((path) => view.open(path));
  const go = async (path) => {
    const wanted = path.length > 1 ? path.replace(/\/+$/, "") || "/" : "/";
    await view.open(wanted.startsWith("/") ? wanted : `/${wanted}`);
    await tree.reveal(field.value);
  };

  const complete = async () => {
    const path = field.value;
    if (!path.startsWith("/")) return;
    const parent = parentOf(path);
    try {
      const page = await get("children", { path: parent, prefix: path.slice(path.lastIndexOf("/") + 1), limit: COMPLETIONS });
      if (field.value === path) choices.replaceChildren(...page.children.map((row) => h("option", { value: join(parent, row.name) })));
    } catch {
      choices.replaceChildren(); // the path is not there, or not readable: nothing to offer
    }
  };

  const find = async (text) => {
    const mine = ++search;
    const list = h("ul");
    const words = h("p", { class: "muted", role: "status" }, "Searching…");
    const stop = h("button", { type: "button", onclick: () => { search += 1; results.hidden = true; } }, "Close");
    results.replaceChildren(h("div", { class: "buttons" }, words, stop), list);
    results.hidden = false;
    let after;
    let visited = 0;
    let found = 0;
    const from = field.value || "/";
    try {
      do {
        const page = await get("search", { path: from, text, after });
        if (mine !== search) return;
        found += page.paths.length;
        visited += page.visited;
        list.append(...page.paths.map((path) => h("li", null, link(visible(path), () => go(path)))));
        words.textContent = `${count(found)} found in ${count(visited)} znodes below ${visible(from)}`;
        after = page.next;
      } while (after !== null && found < 500);
      if (after !== null) words.textContent += "; there are more: search below a longer path";
      say(words.textContent);
    } catch (error) {
      complain(error);
    }
  };

  const element = h("div", { class: "browser" },
    h("div", { class: "side" },
      h("form", { role: "search", onsubmit: (event) => { event.preventDefault(); go(field.value); } },
        field, choices, h("button", { type: "submit" }, "Go")),
      h("form", { onsubmit: (event) => {
        event.preventDefault();
        const text = event.target.elements.text.value;
        if (text) find(text);
      } },
      h("input", { name: "text", "aria-label": "Search in paths below this one", placeholder: "Search below this path", autocomplete: "off" }),
      h("button", { type: "submit" }, "Search")),
      results, tree.element),
    panel);
  field.addEventListener("input", complete);
  return { element, split: true, show: (path) => go(path || "/") };
}
