// Data as they are: characters that cannot be seen are marked, and an editor gives back every byte or refuses.

import { h } from "./dom.js";
import { equal, plainHex, plural, unhex, utf8 } from "./format.js";

const HIDDEN = /[\r\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MOST_MARKS = 20000;
const LARGEST_TEXT = 1 << 20; // bytes that can be edited as text
const LARGEST_HEX = 64 << 10;

// The text as nodes of the page: each hidden character is in an element of its own, which shows its name.
export function marked(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (parts.length > 2 * MOST_MARKS) break;
    const character = found[0];
    const name = character === "\r" ? "CR" : `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(text.slice(end, found.index), h("span", { class: "hidden-character", "data-name": name }, character));
    end = found.index + 1;
  }
  parts.push(text.slice(end));
  return parts;
}

export const tooManyMarks = (text) => (text.match(HIDDEN) ?? []).length > MOST_MARKS;

const bytesOf = (text, ends) => new TextEncoder().encode(ends === "crlf" ? text.replace(/\n/g, "\r\n") : text);

// {text, ends} from which a text field gives the same bytes again; or {why}.
export function editable(content) {
  if (content.length > LARGEST_TEXT) return { why: "The data are too long to be edited as text." };
  const text = utf8(content, false);
  if (text === null) return { why: "The data are not text in UTF-8." };
  for (const ends of ["lf", "crlf"]) {
    const shown = ends === "crlf" ? text.replace(/\r\n/g, "\n") : text;
    if (!shown.includes("\r") && equal(bytesOf(shown, ends), content)) return { text: shown, ends };
  }
  return { why: "The line ends are mixed, which a text field would change." };
}

// Fields for data: as text, as hexadecimal digits, or from a file. `value()` gives the bytes or throws.
export function dataField(content) {
  const text = h("textarea", { name: "data", spellcheck: "false", "aria-label": "Data as text" });
  const ends = h("select", { "aria-label": "Line ends" },
    h("option", { value: "lf" }, "Lines end with LF"), h("option", { value: "crlf" }, "Lines end with CR LF"));
  const hexText = h("textarea", { name: "hex", spellcheck: "false", "aria-label": "Data in hexadecimal digits" });
  const file = h("input", { type: "file", name: "file", "aria-label": "File with the data" });
  const note = h("p", { class: "muted" });
  const places = { text: h("div", { class: "field" }, text, ends), hex: hexText, file };
  const names = { text: "Text", hex: "Hex", file: "File" };
  let form = "text";

  const current = () => {
    if (form === "text") return bytesOf(text.value, ends.value);
    const found = unhex(hexText.value);
    if (found === null) throw new Error("These are no pairs of hexadecimal digits.");
    return found;
  };
  // Put bytes into the fields of a form; why not, if they do not fit.
  const fill = (wanted, bytes) => {
    if (wanted === "text") {
      const found = editable(bytes);
      if (found.why) return found.why;
      text.value = found.text;
      ends.value = found.ends;
    } else if (wanted === "hex") {
      if (bytes.length > LARGEST_HEX) return "The data are too long to be edited in hexadecimal digits: take a file.";
      hexText.value = plainHex(bytes);
    }
    return "";
  };
  const show = (wanted) => {
    form = wanted;
    for (const [name, place] of Object.entries(places)) place.hidden = name !== wanted;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.form === wanted));
  };
  const choose = (wanted) => {
    if (wanted === form) return;
    try {
      const why = form === "file" ? "" : fill(wanted, current());
      note.textContent = why;
      if (!why) show(wanted);
    } catch (error) {
      note.textContent = error.message;
    }
  };
  const buttons = Object.entries(names).map(([name, title]) =>
    h("button", { type: "button", "data-form": name, onclick: () => choose(name) }, title));

  let why = fill("text", content);
  if (!why) {
    show("text");
  } else {
    const more = fill("hex", content);
    show(more ? "file" : "hex");
    why = more ? `${why} ${more}` : why;
  }
  note.textContent = why;
  return {
    element: h("div", { class: "field" },
      h("div", { class: "segmented", role: "group", "aria-label": "Give data as" }, buttons), Object.values(places), note),
    value: async () => {
      if (form !== "file") return current();
      if (!file.files.length) throw new Error("Choose a file.");
      return new Uint8Array(await file.files[0].arrayBuffer());
    },
  };
}

export const sized = (content) => plural(content.length, "byte");
