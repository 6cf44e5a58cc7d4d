// The tree of znodes: a WAI-ARIA tree. Arrow keys, Home, End, Enter, and letters move in it.
//
// Each open directory has a window of its children, in order. `looked` takes what the proxy says of the windows
// each second: it adds, changes and removes rows, and never replaces one that stays, so the focus stays as well.

import { post } from "./api.js";
import { complain, h, say } from "./dom.js";
import { ago, count, folded, join, plural, visible } from "./format.js";

const PAGE = 200;
const LARGEST = 500; // rows of a window: then it moves on
const LEAD = 10; // rows before a place that is jumped to
const FRESH = 60000; // ms in which a change is named
const MOURNED = 10000; // ms in which a deleted znode stays in sight

// Whether a name comes before another one, in the proxy's order: by characters, not by units of UTF-16.
function comes(one, two) {
  const [first, second] = [[...one], [...two]];
  const place = first.findIndex((character, at) => character !== second[at]);
  if (place < 0) return first.length < second.length;
  return place < second.length && first[place].codePointAt(0) < second[place].codePointAt(0);
}

export class Tree {
  constructor(onSelect, onMove) {
    this.onSelect = onSelect;
    this.onMove = onMove; // another directory, or another window of it
    this.items = new WeakMap(); // li -> what is known of it
    this.now = 0; // the proxy's clock
    this.element = h("ul", {
      class: "tree", role: "tree", "aria-label": "Znodes",
      onkeydown: (event) => this.key(event),
      onclick: (event) => this.click(event),
    });
    this.root = this.item("/", 1);
    this.draw(this.root, { name: "/", readable: true, children: 1, kind: "persistent" });
    this.root.tabIndex = 0;
    this.element.append(this.root);
  }

  // -- rows

  item(path, level) {
    const li = h("li", { role: "treeitem", tabindex: -1, "aria-level": level, "aria-selected": "false" }, h("div", { class: "row" }));
    this.items.set(li, { path, level, name: "", window: null, row: null, goneAt: 0 });
    return li;
  }

  // Show what is known of a znode.
  draw(li, row) {
    const known = this.items.get(li);
    known.row = row;
    known.name = row.name;
    known.goneAt = 0;
    // Deleted children stay in sight for a while, the last one as well.
    const inner = row.readable && (row.children > 0 || (li.getAttribute("aria-expanded") === "true" && this.rows(li, true).length > 0));
    const name = visible(row.name);
    const words = [name, row.kind && row.kind !== "persistent" ? row.kind : null, row.readable ? null : "not readable",
      row.children ? plural(row.children, "child", "children") : null].filter(Boolean).join(", ");
    li.setAttribute("aria-label", known.path === "/" ? "/, root" : words);
    li.classList.remove("gone");
    if (inner && !li.hasAttribute("aria-expanded")) li.setAttribute("aria-expanded", "false");
    if (!inner) {
      li.removeAttribute("aria-expanded");
      li.querySelector(":scope > ul")?.remove();
      known.window = null;
    }
    li.querySelector(":scope > .row").replaceChildren(
      h("span", { class: "twist", "aria-hidden": "true" }),
      h("span", { class: "name", title: name }, name),
      row.children && known.path !== "/" ? h("span", { class: "count", title: plural(row.children, "child", "children") }, count(row.children)) : "",
      row.kind && row.kind !== "persistent" ? h("span", { class: "badge on" }, row.kind) : "",
      h("span", { class: "age" }));
    this.twist(li);
    this.age(li);
  }

  twist(li) {
    const expanded = li.getAttribute("aria-expanded");
    const { row } = this.items.get(li);
    li.querySelector(":scope > .row > .twist").textContent = expanded === "true" ? "▾" : expanded ? "▸" : row?.readable ? "" : "⊘";
  }

  // "changed 3 s ago", by the proxy's clock.
  age(li) {
    const { row, goneAt, path } = this.items.get(li);
    const place = li.querySelector(":scope > .row > .age");
    if (!place || path === "/") return;
    const since = this.now - (row.mtime ?? 0);
    let words = "";
    if (goneAt) words = `deleted ${ago(Math.max(0, this.now - goneAt))}`;
    else if (row.mtime && since < FRESH) words = `${row.czxid === row.mzxid ? "new" : "changed"} ${ago(Math.max(0, since))}`;
    if (place.textContent !== words) place.textContent = words;
  }

  more(path, level, kind, left) {
    const words = kind === "later" ? `Show more (${count(left)} left)` : `Show earlier (${count(left)})`;
    const li = h("li", { role: "treeitem", tabindex: -1, class: `more ${kind}`, "aria-level": level, "aria-selected": "false", "aria-label": words },
      h("div", { class: "row" }, h("span", { class: "twist", "aria-hidden": "true" }, "⋯"), words));
    this.items.set(li, { path, level, name: "", kind });
    return li;
  }

  // -- windows

  group(li) {
    return li.querySelector(":scope > ul");
  }

  // The rows of znodes in a directory; with deleted ones or without.
  rows(li, gone = false) {
    return [...(this.group(li)?.children ?? [])].filter((each) => !this.items.get(each).kind && (gone || !this.items.get(each).goneAt));
  }

  // What to ask the proxy for: the windows that are in sight, and that no other request is about.
  wanted() {
    return this.visible().filter((li) => li.getAttribute("aria-expanded") === "true" && (this.items.get(li).window?.mark ?? null) !== null)
      .slice(0, 100);
  }

  request(li) {
    const { path, window: { start, offset, lead, limit, contains, mark } } = this.items.get(li);
    return { path, from: start, lead, limit, contains, mark, ...(offset === null ? {} : { offset }) };
  }

  // Ask for one window now.
  async load(li) {
    const { window } = this.items.get(li);
    const asked = this.request(li);
    const answer = await post("look", { windows: [asked] });
    this.now = answer.nowMs;
    const [page] = answer.windows;
    if (page.error) throw new Error(page.error);
    if (this.items.get(li).window === window) this.apply(li, page);
  }

  // The answers to `requests`, in their order.
  looked(all, requests, answers, now) {
    this.now = now;
    all.forEach((li, place) => {
      const answer = answers[place];
      const { window } = this.items.get(li);
      // Another window was asked for meanwhile.
      if (!window || JSON.stringify(this.request(li)) !== JSON.stringify(requests[place])) return;
      if (answer.status === 403) this.close(li);
      else if (!answer.error && !answer.same) this.apply(li, answer);
    });
    for (const li of this.element.querySelectorAll('[role="treeitem"]')) {
      const known = this.items.get(li);
      if (known.goneAt && now - known.goneAt > MOURNED) this.drop(li);
      else if (known.window && known.row.children === 0 && known.path !== "/" && !this.rows(li, true).length) this.draw(li, known.row);
      else if (!known.kind) this.age(li);
    }
  }

  drop(li) {
    const next = li.previousElementSibling ?? li.parentElement.closest('[role="treeitem"]');
    if (li.contains(document.activeElement)) this.focus(next);
    else if (li.tabIndex === 0 || li.querySelector('[tabindex="0"]')) this.mark(li.parentElement.closest('[role="treeitem"]'));
    li.remove();
  }

  apply(li, page) {
    const known = this.items.get(li);
    const { window } = known;
    const isFirst = window.mark === null;
    Object.assign(window, { mark: page.mark, before: page.before, matching: page.matching, total: page.total, lead: 0, offset: null });
    window.start = page.before ? page.children[0]?.name ?? window.start : "";
    const group = this.group(li);
    const last = page.children.at(-1)?.name;
    const isLast = page.before + page.children.length >= page.matching;
    const there = new Map(this.rows(li, true).map((each) => [this.items.get(each).name, each]));
    const rows = page.children.map((row) => {
      const each = there.get(row.name) ?? this.item(join(known.path, row.name), known.level + 1);
      const before = this.items.get(each);
      if (!before.row || before.goneAt || JSON.stringify(before.row) !== JSON.stringify(row)) this.draw(each, row);
      there.delete(row.name);
      return each;
    });
    // What is not there any more was deleted if it lies in the window, and did not only leave it.
    for (const [name, each] of there) {
      const deleted = !isFirst && !window.contains && !comes(name, window.start) && (isLast || comes(name, last));
      if (!deleted) {
        this.drop(each);
        continue;
      }
      const gone = this.items.get(each);
      if (!gone.goneAt) {
        gone.goneAt = this.now;
        each.classList.add("gone");
        each.removeAttribute("aria-expanded");
        this.group(each)?.remove();
        this.twist(each);
        each.setAttribute("aria-label", `${visible(name)}, deleted`);
      }
      const place = rows.findIndex((other) => comes(name, this.items.get(other).name));
      rows.splice(place < 0 ? rows.length : place, 0, each);
    }
    let position = page.before;
    for (const each of rows) {
      if (!this.items.get(each).goneAt) position += 1;
      each.setAttribute("aria-posinset", position);
      each.setAttribute("aria-setsize", page.matching);
    }
    const left = page.matching - page.before - page.children.length;
    const had = group.querySelector(":scope > .more:focus")?.classList.contains("later");
    const wanted = [
      page.before ? this.more(known.path, known.level + 1, "earlier", page.before) : null, ...rows,
      left > 0 ? this.more(known.path, known.level + 1, "later", left) : null].filter(Boolean);
    for (const each of [...group.children]) if (!wanted.includes(each)) each.remove();
    wanted.forEach((each, place) => { if (group.children[place] !== each) group.insertBefore(each, group.children[place] ?? null); });
    if (had !== undefined) this.focus(group.querySelector(`:scope > .more.${had ? "later" : "earlier"}`) ?? rows.at(had ? -1 : 0));
    if (!this.element.querySelector('[tabindex="0"]')) this.mark(li);
    if (isFirst) say(`${folded(visible(known.path))}: ${count(page.children.length)} of ${plural(page.total, "child", "children")} shown`);
    this.onMove();
  }

  async open(li) {
    const known = this.items.get(li);
    if (!li.hasAttribute("aria-expanded")) return;
    li.setAttribute("aria-expanded", "true");
    this.twist(li);
    if (known.window) return;
    known.window = { start: "", offset: null, lead: 0, limit: PAGE, contains: "", mark: null, before: 0, matching: 0, total: 0 };
    li.append(h("ul", { role: "group" }));
    try {
      await this.load(li);
      complain(null);
    } catch (error) {
      this.close(li);
      known.window = null;
      this.group(li)?.remove();
      complain(error);
    }
  }

  // Move the window of a directory: {start}, {offset}, {contains}.
  async move(li, place) {
    const known = this.items.get(li);
    known.window = { ...known.window, start: "", offset: null, lead: 0, limit: PAGE, mark: null, ...place };
    try {
      await this.load(li);
      complain(null);
    } catch (error) {
      known.window.mark = ""; // the next look tries again
      complain(error);
    }
  }

  async showMore(more) {
    const li = more.parentElement.closest('[role="treeitem"]');
    const { window } = this.items.get(li);
    const rows = this.rows(li);
    const names = rows.map((each) => this.items.get(each).name);
    if (more.classList.contains("earlier")) {
      await this.move(li, { start: window.start, lead: PAGE, limit: Math.min(LARGEST, names.length + PAGE), contains: window.contains });
      this.focus(this.rows(li)[Math.max(0, Math.min(PAGE, window.before) - 1)]);
      return;
    }
    const limit = names.length + Math.min(PAGE, window.matching - window.before - names.length);
    const start = limit <= LARGEST ? window.start : names[limit - LARGEST];
    await this.move(li, { start, limit: Math.min(limit, LARGEST), contains: window.contains });
    this.focus(rows.at(-1)?.nextElementSibling);
  }

  close(li) {
    if (!li.hasAttribute("aria-expanded")) return;
    li.setAttribute("aria-expanded", "false");
    this.twist(li);
    this.group(li)?.toggleAttribute("hidden", true);
  }

  async toggle(li, open) {
    if (open) {
      this.group(li)?.toggleAttribute("hidden", false);
      await this.open(li);
    } else {
      this.close(li);
    }
    this.onMove();
  }

  // -- selection

  focus(li) {
    if (!li) return;
    this.mark(li);
    li.focus();
    li.querySelector(":scope > .row").scrollIntoView({ block: "nearest", inline: "nearest" });
    this.onMove();
  }

  mark(li) {
    this.element.querySelectorAll('[tabindex="0"]').forEach((each) => { each.tabIndex = -1; });
    li.tabIndex = 0;
  }

  unselect() {
    this.element.querySelectorAll('[aria-selected="true"]').forEach((each) => each.setAttribute("aria-selected", "false"));
  }

  select(li) {
    this.unselect();
    li.setAttribute("aria-selected", "true");
    this.onSelect(this.items.get(li).path);
  }

  // The open directory that the marked row is, or lies in.
  directory() {
    const li = this.element.querySelector('[tabindex="0"]') ?? this.root;
    const isOpen = (each) => each && this.items.get(each)?.window && each.getAttribute("aria-expanded") === "true";
    const above = li.parentElement?.closest('[role="treeitem"]');
    return isOpen(li) ? li : isOpen(above) ? above : null;
  }

  // Open the way to a path as far as it is listed, and mark it; without a move of the focus.
  async reveal(path) {
    let li = this.root;
    await this.toggle(li, true);
    let here = "/";
    for (const name of path.split("/").filter(Boolean)) {
      here = join(here, name);
      const find = () => this.rows(li).find((each) => this.items.get(each).path === here);
      if (!find() && this.items.get(li).window) await this.move(li, { start: name, lead: LEAD, contains: "" });
      // A znode that had no child when its row was drawn may have one now.
      if (here !== path && find() && !find().hasAttribute("aria-expanded")) await this.load(li).catch(complain);
      const next = find();
      if (!next) break;
      li = next;
      if (here !== path) await this.toggle(li, true);
    }
    this.unselect();
    if (this.items.get(li).path === path) {
      this.mark(li);
      li.setAttribute("aria-selected", "true");
      li.querySelector(":scope > .row").scrollIntoView({ block: "nearest", inline: "nearest" });
      this.onMove();
    }
  }

  // -- events

  click(event) {
    const li = event.target.closest('[role="treeitem"]');
    if (!li) return;
    if (this.items.get(li).kind) {
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
      Enter: () => (this.items.get(li).kind ? this.showMore(li) : this.select(li)),
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
