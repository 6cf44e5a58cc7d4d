// Values as people read them. No DOM here.

export const count = (number) => (number ?? 0).toLocaleString("en-US");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function bytes(number) {
  if (number < 1024) return `${number} B`;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    number /= 1024;
    if (number < 1024 || unit === "GiB") return `${number.toFixed(number < 10 ? 1 : 0)} ${unit}`;
  }
}

export function time(ms) {
  if (!ms) return "never";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

export function span(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return plural(Math.round(seconds / 86400), "day");
}

// How long ago, by whole seconds: it is shown again each second.
export function ago(ms) {
  if (ms < 1000) return "just now";
  return ms < 120000 ? `${Math.floor(ms / 1000)} s ago` : `${span(ms)} ago`;
}

export function nanos(number) {
  if (number < 1e3) return `${number} ns`;
  if (number < 1e6) return `${(number / 1e3).toPrecision(3)} µs`;
  if (number < 1e9) return `${(number / 1e6).toPrecision(3)} ms`;
  return `${(number / 1e9).toPrecision(3)} s`;
}

export const rate = (number) => (number >= 100 ? count(Math.round(number)) : number.toFixed(1));

// A name may hold characters that cannot be seen, or that change the direction of what follows.
export const visible = (name) =>
  name.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A long text without its middle; whoever shows it has to offer the whole.
export const folded = (text, most = 90) =>
  (text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2))}…${text.slice(-Math.floor(most / 2))}`);

export function decoded(base64) {
  const text = atob(base64);
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

export function encoded(content) {
  let text = "";
  for (let place = 0; place < content.length; place += 8192) {
    text += String.fromCharCode(...content.subarray(place, place + 8192));
  }
  return btoa(text);
}

// The text of UTF-8, null if it is none. What is cut off at the end does not count.
export function utf8(content, cut) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content, { stream: cut });
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

export function hex(content, width = 16) {
  const lines = [];
  for (let place = 0; place < content.length; place += width) {
    const row = [...content.subarray(place, place + width)];
    const numbers = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(3 * width - 1);
    const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${place.toString(16).padStart(8, "0")}  ${numbers}  ${letters}`);
  }
  return lines.join("\n");
}

// The bytes of hexadecimal digits, null if they are none.
export function unhex(text) {
  const digits = text.replace(/\s/g, "");
  if (digits.length % 2 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export const plainHex = (content) =>
  [...content].map((byte, place) => byte.toString(16).padStart(2, "0") + ((place + 1) % 16 ? " " : "\n")).join("").trimEnd();

export const equal = (one, two) => one.length === two.length && one.every((byte, place) => byte === two[place]);

export const parentOf = (path) => path.slice(0, path.lastIndexOf("/")) || "/";
export const join = (parent, name) => (parent === "/" ? `/${name}` : `${parent}/${name}`);
