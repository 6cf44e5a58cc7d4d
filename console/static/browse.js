// The view "Tree": path field with completion, search, the tree, and the panel of the selected znode.

import { get, post } from "./api.js";
import { complain, h, link, say } from "./dom.js";
import { folded, join, parentOf, plural, visible } from "./format.js";
import { NodePanel } from "./node.js";
import { poll } from "./poll.js";
import { seekBar } from "./seek.js";
import { Tree } from "./tree.js";

const COMPLETIONS = 20;
const INTERVAL = 1000; // ms between two looks at what is shown

export function browse(app) {
  const field = h("input", { name: "path", "aria-label": "Path", autocomplete: "off", spellcheck: "false", list: "completions", value: "/" });
  const choices = h("datalist", { id: "completions" });
  const results = h("div", { class: "results", hidden: true });
  let search = 0; // the search under way; another one, or "Stop", ends it

  const view = {
    write: app.session.write,
    archive: app.session.archive,
    session: (id) => app.go("sessions", id),
    open: async (path) => {
      field.value = path;
      app.note("tree", path);
      await panel.show(path);
    },
    go: (path) => go(path),
    changed: async (path) => {
      await view.open(path);
      await look();
      if (panel.path === path) await tree.reveal(path);
    },
    deletions: () => app.go("deletions"),
  };
  const panel = new NodePanel(view);
  const tree = new Tree((path) => view.open(path), () => seek.update());
  const seek = seekBar(tree);
  const go = async (path) => {
    const wanted = path.length > 1 ? path.replace(/\/+$/, "") || "/" : "/";
    await view.open(wanted.startsWith("/") ? wanted : `/${wanted}`);
    if (panel.path === field.value) await tree.reveal(field.value);
  };

  // What has changed of all that is in sight, in one request.
  const look = async () => {
    const directories = tree.wanted();
    const windows = directories.map((li) => tree.request(li));
    const node = panel.request();
    const now = await post("look", { windows, node });
    tree.looked(directories, windows, now.windows, now.nowMs);
    panel.looked(node, now.node, now.nowMs);
    seek.update();
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
        list.append(...page.paths.map((path) => h("li", null, link(folded(visible(path), 160), () => go(path), visible(path)))));
        words.textContent = `${found.toLocaleString("en-US")} found in ${plural(visited, "znode")} below ${visible(from)}`;
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
      results, seek.element, tree.element),
    panel.element);
  field.addEventListener("input", complete);
  let stop = () => {};
  let isShown = false;
  return {
    element,
    split: true,
    show: async (path) => {
      isShown = true;
      stop();
      await go(path || "/");
      stop();
      if (isShown) stop = poll(look, INTERVAL);
    },
    hide: () => {
      isShown = false;
      stop();
    },
  };
}
