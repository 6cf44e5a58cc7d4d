// Builds elements. Texts become text nodes only: a znode's path or data is never read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

export function card(title, body, ...tools) {
  return h("section", { class: "card" },
    h("div", { class: "bar" }, h("h3", null, title), tools.length ? h("div", { class: "buttons" }, tools) : null),
    h("div", { class: "body" }, body));
}

export function grid(pairs) {
  return h("dl", { class: "facts-grid" },
    pairs.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

// columns: [title, cell(row), class]
export function table(caption, columns, rows, empty) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  // On a phone each row becomes a list of such pairs; a title may be a button, and then its text is the label.
  const label = (title) => (title instanceof Node ? title.textContent.replace(/ [▾▴]$/, "") : title);
  return h("div", { class: "scroll" }, h("table", { "aria-label": caption, class: columns.length > 2 ? "wide" : null },
    h("thead", null, h("tr", null, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)))),
    h("tbody", null, rows.map((row) => h("tr", null,
      columns.map(([title, cell, kind]) => h("td", { class: kind, "data-label": label(title) }, cell(row))))))));
}

export function say(text) {
  byId("status").textContent = text;
}

export function complain(error) {
  const place = byId("alert");
  place.textContent = error ? error.message ?? String(error) : "";
  place.hidden = !error;
}

export const link = (text, action, label) =>
  h("button", { type: "button", class: "link mono", onclick: action, "aria-label": label, title: label }, text);
