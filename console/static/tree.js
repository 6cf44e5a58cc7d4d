// The tree of znodes: a WAI-ARIA tree with lazy children. Arrow keys, Home, End, Enter, and letters move in it.

import { get } from "./api.js";
import { complain, h, say } from "./dom.js";
import { count, join, visible } from "./format.js";

const PAGE = 200;

export class Tree {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.items = new WeakMap(); // li -> what is known of it
    this.element = h("ul", {
      class: "tree", role: "tree", "aria-label": "Znodes",
      onkeydown: (event) => this.key(event),
      onclick: (event) => this.click(event),
    });
    this.root = this.item("/", { name: "/", readable: true, children: 1, kind: "persistent" }, 1);
    this.root.tabIndex = 0;
    this.element.append(this.root);
  }

  // -- items

  item(path, row, level) {
    const inner = row.children === null || row.children > 0;
    const name = visible(row.name);
    const locked = !row.readable;
    const words = [name, row.kind && row.kind !== "persistent" ? row.kind : null, locked ? "not readable" : null,
      row.children ? `${count(row.children)} children` : null].filter(Boolean).join(", ");
    const li = h("li", {
      role: "treeitem", tabindex: -1, "aria-level": level, "aria-selected": "false",
      "aria-label": path === "/" ? "/, root" : words,
      "aria-expanded": inner && !locked ? "false" : null,
    },
    h("div", { class: "row" },
      h("span", { class: "twist", "aria-hidden": "true" }, inner && !locked ? "▸" : locked ? "⊘" : ""),
      h("span", { class: "name", title: name }, name),
      row.children && path !== "/" ? h("span", { class: "count" }, count(row.children)) : null,
      row.kind && row.kind !== "persistent" ? h("span", { class: "badge on" }, row.kind) : null));
    this.items.set(li, { path, level, name: row.name, loaded: false });
    return li;
  }

  more(path, level, after, left) {
    const li = h("li", { role: "treeitem", tabindex: -1, class: "more", "aria-level": level, "aria-selected": "false",
      "aria-label": `Show more, ${count(left)} left` },
    h("div", { class: "row" }, h("span", { class: "twist", "aria-hidden": "true" }, "⋯"), `Show more (${count(left)} left)`));
    this.items.set(li, { path, level, after, name: "" });
    return li;
  }

  async open(li) {
    const known = this.items.get(li);
    if (!known || !li.hasAttribute("aria-expanded")) return;
    li.setAttribute("aria-expanded", "true");
    li.querySelector(":scope > .row > .twist").textContent = "▾";
    if (known.loaded) return;
    known.loaded = true;
    const group = h("ul", { role: "group" });
    li.append(group);
    try {
      await this.fill(group, known.path, known.level + 1, "");
      complain(null);
    } catch (error) {
      known.loaded = false;
      group.remove();
      this.close(li);
      complain(error);
    }
  }

  async fill(group, path, level, after) {
    const page = await get("children", { path, after, limit: PAGE });
    const shown = group.children.length;
    group.append(...page.children.map((row) => this.item(join(path, row.name), row, level)));
    if (page.next !== null) group.append(this.more(path, level, page.next, page.total - shown - page.children.length));
    say(`${visible(path)}: ${count(Math.min(shown + page.children.length, page.total))} of ${count(page.total)} children shown`);
  }

  async showMore(li) {
    const { path, level, after } = this.items.get(li);
    const group = li.parentElement;
    const place = group.children.length - 1;
    li.remove();
    try {
      await this.fill(group, path, level, after);
      this.focus(group.children[Math.min(place, group.children.length - 1)]);
    } catch (error) {
      group.append(li);
      complain(error);
    }
  }

  close(li) {
    if (!li.hasAttribute("aria-expanded")) return;
    li.setAttribute("aria-expanded", "false");
    li.querySelector(":scope > .row > .twist").textContent = "▸";
    li.querySelector(":scope > ul")?.toggleAttribute("hidden", true);
  }

  async toggle(li, open) {
    if (open) {
      li.querySelector(":scope > ul")?.toggleAttribute("hidden", false);
      await this.open(li);
    } else {
      this.close(li);
    }
  }

  // -- selection

  focus(li) {
    if (!li) return;
    this.element.querySelectorAll('[tabindex="0"]').forEach((each) => { each.tabIndex = -1; });
    li.tabIndex = 0;
    li.focus();
    li.querySelector(":scope > .row").scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  select(li) {
    this.element.querySelectorAll('[aria-selected="true"]').forEach((each) => each.setAttribute("aria-selected", "false"));
    li.setAttribute("aria-selected", "true");
    this.onSelect(this.items.get(li).path);
  }

  // Open the way to a path as far as it is listed, and mark it; without a move of the focus.
  async reveal(path) {
    let li = this.root;
    await this.toggle(li, true);
    let here = "/";
    for (const name of path.split("/").filter(Boolean)) {
      here = join(here, name);
      const next = [...(li.querySelector(":scope > ul")?.children ?? [])].find((each) => this.items.get(each).path === here);
      if (!next) break;
      li = next;
      if (here !== path) await this.toggle(li, true);
    }
    this.element.querySelectorAll('[aria-selected="true"]').forEach((each) => each.setAttribute("aria-selected", "false"));
    if (this.items.get(li).path === path) {
      this.element.querySelectorAll('[tabindex="0"]').forEach((each) => { each.tabIndex = -1; });
      li.tabIndex = 0;
      li.setAttribute("aria-selected", "true");
      li.querySelector(":scope > .row").scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  // Load a directory again, after a change.
  async refresh(path) {
    const li = [...this.element.querySelectorAll('[role="treeitem"]')].find((each) => {
      const known = this.items.get(each);
      return known.path === path && known.after === undefined;
    });
    if (!li) return;
    const known = this.items.get(li);
    li.querySelector(":scope > ul")?.remove();
    known.loaded = false;
    li.setAttribute("aria-expanded", "false");
    await this.toggle(li, true);
  }

  // -- events

  click(event) {
    const li = event.target.closest('[role="treeitem"]');
    if (!li) return;
    if (li.classList.contains("more")) {
      this.showMore(li);
      return;
    }
    this.focus(li);
    if (event.target.closest(".twist")) {
      this.toggle(li, li.getAttribute("aria-expanded") === "false");
      return;
    }
    this.select(li);
    if (li.getAttribute("aria-expanded") === "false") this.toggle(li, true);
  }

  visible() {
    return [...this.element.querySelectorAll('[role="treeitem"]')].filter((li) => !li.closest("ul[hidden]"));
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const li = event.target.closest('[role="treeitem"]');
    if (!li) return;
    const all = this.visible();
    const place = all.indexOf(li);
    const expanded = li.getAttribute("aria-expanded");
    const keys = {
      ArrowDown: () => this.focus(all[place + 1]),
      ArrowUp: () => this.focus(all[place - 1]),
      Home: () => this.focus(all[0]),
      End: () => this.focus(all.at(-1)),
      ArrowRight: () => {
        if (expanded === "false") this.toggle(li, true);
        else if (expanded === "true") this.focus(li.querySelector(':scope > ul > [role="treeitem"]'));
      },
      ArrowLeft: () => {
        if (expanded === "true") this.toggle(li, false);
        else this.focus(li.parentElement.closest('[role="treeitem"]'));
      },
      Enter: () => (li.classList.contains("more") ? this.showMore(li) : this.select(li)),
    };
    keys[" "] = keys.Enter;
    if (keys[event.key]) {
      keys[event.key]();
    } else if (event.key.length === 1) {
      const letter = event.key.toLowerCase();
      const order = [...all.slice(place + 1), ...all.slice(0, place)];
      this.focus(order.find((each) => this.items.get(each).name.toLowerCase().startsWith(letter)));
    } else {
      return;
    }
    event.preventDefault();
  }
}
