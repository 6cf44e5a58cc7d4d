// The bar above the tree for a large directory: jump to a name or a place, or show only names with some text.

import { h } from "./dom.js";
import { count, folded, visible } from "./format.js";

const FEW = 50; // children that need no bar

export function seekBar(tree) {
  const words = h("span", { class: "muted" });
  const jump = h("input", { "aria-label": "Jump to the first name from", placeholder: "Jump to name", autocomplete: "off", spellcheck: "false" });
  const filter = h("input", { "aria-label": "Show only names that contain", placeholder: "Only with", autocomplete: "off", spellcheck: "false" });
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Place among the children" });
  const element = h("div", { class: "seek", hidden: true }, words, h("div", { class: "seek-fields" }, jump, filter), slider);
  let shown = null; // the directory that the bar is about
  let moving = Promise.resolve();
  let waiting = null;

  const window = () => tree.items.get(shown)?.window;
  // One move at a time, and of those that wait only the last.
  const move = (place) => {
    waiting = place;
    moving = moving.then(async () => {
      if (!waiting || !window()) return;
      const next = waiting;
      waiting = null;
      await tree.move(shown, next);
      tree.group(shown)?.firstElementChild?.scrollIntoView({ block: "nearest" });
    });
  };
  jump.addEventListener("input", () => move({ start: jump.value, contains: window()?.contains ?? "" }));
  filter.addEventListener("input", () => { jump.value = ""; move({ contains: filter.value }); });
  slider.addEventListener("input", () => { jump.value = ""; move({ offset: Number(slider.value), contains: window()?.contains ?? "" }); });

  const update = () => {
    const li = tree.directory();
    if (li !== shown) {
      shown = li;
      jump.value = "";
      filter.value = window()?.contains ?? "";
    }
    const now = window();
    element.hidden = !now || (now.total <= FEW && !now.contains);
    if (element.hidden) return;
    const rows = tree.rows(shown).length;
    const { path } = tree.items.get(shown);
    const range = rows ? `${count(now.before + 1)}–${count(now.before + rows)} of ${count(now.matching)}` : "none";
    words.textContent = `${folded(visible(path), 40)}: ${range}${now.contains ? ` that match, of ${count(now.total)}` : ""}`;
    slider.max = Math.max(0, now.matching - 1);
    if (document.activeElement !== slider) slider.value = now.before;
    slider.hidden = now.matching <= rows;
  };
  return { element, update };
}
