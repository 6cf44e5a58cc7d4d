// The past of a znode: a slider over time, its history with differences, and the command that brings it back.

import { get } from "./api.js";
import { marked } from "./content.js";
import { differences, near } from "./diff.js";
import { card, grid, h, svg, table } from "./dom.js";
import { ask } from "./edit.js";
import { bytes, decoded, hex, plural, time, utf8, visible } from "./format.js";
import { pretty } from "./json.js";
import { aclCard, dataCard } from "./node.js";

const DAYS = { 1: "1 day", 7: "7 days", 30: "30 days", 0: "all of the archive" };
const WIDTH = 1000; // of the slider's marks

export function pastCard() {
  const body = h("div");
  const element = card("Past", body);
  element.classList.add("past");
  let path = null;
  let turn = 0; // another znode, or another question: older answers are dropped

  const closed = () => body.replaceChildren(
    h("button", { type: "button", onclick: open }, "Look into the past"),
    h("span", { class: "muted" }, " A process of its own reads the archive for it; a moment of a large tree takes seconds."));

  const open = async (days) => {
    const mine = ++turn;
    const wanted = typeof days === "string" ? days : "7";
    body.replaceChildren(h("p", { class: "muted", role: "status" }, "The archive is read…"));
    try {
      const [span, past] = await Promise.all([get("past/span"), get("past/history", { path, days: wanted })]);
      if (mine === turn) show(span, past, wanted);
    } catch (error) {
      if (mine === turn) body.replaceChildren(h("p", { class: "bad" }, error.message), h("button", { type: "button", onclick: open }, "Try again"));
    }
  };

  const show = (span, past, days) => {
    const events = past.events.slice().reverse(); // oldest first
    const first = span.fromMs ?? Math.min(span.begunMs, events[0]?.timeMs ?? span.begunMs);
    const begin = Number(days) ? Math.max(first, span.toMs - Number(days) * 86400000) : first;
    const end = Math.max(span.toMs, begin + 1);
    const slider = h("input", { type: "range", min: begin, max: end, step: 1, value: end, "aria-label": "Moment" });
    const label = h("output", null, time(end));
    const state = h("div");
    const marks = svg("svg", { class: "marks", viewBox: `0 0 ${WIDTH} 8`, preserveAspectRatio: "none", "aria-hidden": "true" },
      events.filter((event) => event.timeMs >= begin).map((event) => svg("line", {
        class: event.change, x1: (WIDTH * (event.timeMs - begin)) / (end - begin), x2: (WIDTH * (event.timeMs - begin)) / (end - begin), y1: 0, y2: 8,
      })));
    let at = String(end);
    const move = (moment, ms) => {
      at = moment;
      slider.value = ms;
      label.textContent = moment.startsWith("0x") ? `${time(ms)}, zxid ${moment}` : time(ms);
      look(moment);
    };
    slider.addEventListener("input", () => { label.textContent = time(Number(slider.value)); });
    slider.addEventListener("change", () => move(slider.value, Number(slider.value)));
    // The next change in this direction from where the slider is.
    const step = (way) => {
      const now = Number(slider.value);
      const next = way < 0 ? events.findLast((event) => event.timeMs < now) : events.find((event) => event.timeMs > now);
      if (next) move(next.zxid, next.timeMs);
    };
    const look = async (moment) => {
      const mine = ++turn;
      state.replaceChildren(h("p", { class: "muted", role: "status" }, "The state of that moment is made…"));
      try {
        const found = await get("past/node", { path, at: moment });
        if (mine === turn) state.replaceChildren(stateOf(found));
      } catch (error) {
        if (mine === turn) state.replaceChildren(h("p", { class: "bad" }, error.message));
      }
    };
    const button = (words, action) => h("button", { type: "button", onclick: action }, words);
    body.replaceChildren(
      h("div", { class: "slider" }, marks, slider),
      h("div", { class: "row-tools" }, label, button("Earlier change", () => step(-1)), button("Later change", () => step(1)),
        button("Show this moment", () => look(at)), button("Revert to it…", () => revertDialog(path, at)),
        h("label", { class: "inline" }, "History of ", h("select", { onchange: (event) => open(event.target.value) },
          Object.entries(DAYS).map(([value, words]) => h("option", { value, selected: value === days }, words))))),
      h("p", { class: "muted below" }, `The archive has all from ${span.fromMs ? time(span.fromMs) : "the tree's beginning"} to ${time(span.toMs)}. `,
        span.gaps ? h("span", { class: "warn" }, `${plural(span.gaps, "gap")}: what happened in them is not known. `) : "",
        `${plural(past.total, "change")}${past.total > events.length ? `, of which the last ${events.length} are shown` : ""}.`),
      state,
      table("History", [
        ["Time", (event) => time(event.timeMs)],
        ["zxid", (event) => h("button", { type: "button", class: "link mono", onclick: () => move(event.zxid, event.timeMs) }, event.zxid)],
        ["Change", (event) => event.change],
        ["Version", (event) => arrow(event.versions), "n"],
        ["Size", (event) => arrow(event.sizes.map((size) => (size === null ? null : bytes(size)))), "n"],
        ["By", (event) => [`${event.operation} of ${event.session}`, ...event.users.map((user) => ` ${visible(user)}`), event.reason ? ` (${visible(event.reason)})` : ""].join("")],
        ["", (event) => button("Difference", () => differenceDialog(path, event))],
      ], past.events, "Nothing has happened to this znode in that time."));
  };

  return {
    element,
    show: (next) => {
      if (next === path) return;
      path = next;
      turn += 1;
      closed();
    },
  };
}

const arrow = ([before, after]) => [before, after].filter((value) => value !== null).join(" → ");

// A znode as it was.
function stateOf(found) {
  if (!found.node) return h("p", { class: "empty" }, `There was no such znode (${found.at}).`);
  const { node } = found;
  const { stat } = node;
  return h("div", { class: "then" },
    h("p", { class: "muted" }, h("span", { class: "badge on" }, node.kind), ` as of ${found.at}, last zxid ${found.zxid}`),
    dataCard(node.data === null ? new Uint8Array() : decoded(node.data), { truncated: node.truncated, length: stat.dataLength }),
    card("Stat", grid([
      ["Created", `${stat.czxid}, ${time(stat.ctime)}`], ["Modified", `${stat.mzxid}, ${time(stat.mtime)}`],
      ["Data version", stat.version], ["Children version", stat.cversion], ["ACL version", stat.aversion],
      ["Ephemeral owner", stat.ephemeralOwner === "0x0" ? "none" : stat.ephemeralOwner],
      ["Children", [plural(stat.numChildren, "child", "children"), found.children.length ? `: ${found.children.map(visible).join(", ")}${stat.numChildren > found.children.length ? ", …" : ""}` : ""].join("")],
    ])),
    aclCard(node.acl));
}

// What a znode is, as lines that can be compared.
function lines({ node }) {
  if (!node) return [];
  const content = node.data === null ? null : decoded(node.data);
  const text = content === null ? "" : utf8(content, node.truncated);
  const shown = content === null ? "(no data)" : text === null ? hex(content) : (!node.truncated && pretty(text)) || text;
  return [
    ["data", shown + (node.truncated ? "\n(the rest is not compared)" : "")],
    ["ACL", node.acl.map((entry) => `${entry.scheme}:${entry.id} ${entry.permissions.join(", ")}`).join("\n")],
    ["kind", node.kind],
  ];
}

function differenceDialog(path, event) {
  const place = h("div", null, h("p", { class: "muted", role: "status" }, "The two states are made…"));
  ask(`${visible(path)}: ${event.change} at ${time(event.timeMs)}`, place, null, null);
  const load = async () => {
    // One after the other: there is one tree in memory at a time.
    const before = await get("past/node", { path, at: event.before });
    const after = await get("past/node", { path, at: event.zxid });
    if (!before.node !== !after.node) place.replaceChildren(h("p", null, after.node ? "Created:" : "Deleted; it was:"));
    else place.replaceChildren();
    const [one, two] = [new Map(lines(before)), new Map(lines(after))];
    let differs = false;
    for (const name of new Set([...one.keys(), ...two.keys()])) {
      const [was, is] = [one.get(name) ?? null, two.get(name) ?? null];
      if (was === is) continue;
      differs = true;
      const found = was === null ? is.split("\n").map((line) => ["+", line])
        : is === null ? was.split("\n").map((line) => ["-", line]) : differences(was, is);
      place.append(h("h3", { class: "below" }, name), found === null
        ? h("p", { class: "muted" }, "These are too long to be compared here.")
        : h("pre", { class: "data difference", tabindex: 0 }, near(found).map(([kind, line]) =>
          h("span", { class: { "-": "removed", "+": "added" }[kind] ?? "" }, `${kind} `, marked(line), "\n"))));
    }
    if (!differs) place.append(h("p", { class: "muted" }, "Data, ACL and kind are the same before and after."));
  };
  load().catch((error) => place.replaceChildren(h("p", { class: "bad" }, error.message)));
}

async function revertDialog(path, at) {
  const place = h("div", null, h("p", { class: "muted" }, "…"));
  ask(`Bring ${visible(path)} back`, place, null, null);
  try {
    const { command } = await get("past/revert", { path, at });
    place.replaceChildren(
      h("p", null, "Run this on a host that reaches etcd and the archive. It prints what it would write to the znode and all below it:"),
      h("pre", { class: "data command", tabindex: 0 }, marked(command)),
      h("div", { class: "buttons below" }, h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(command) }, "Copy")),
      h("p", { class: "muted below" }, "With --yes it writes it. Add the options of this proxy for TLS and users of etcd, and --auth for an identity to write with."));
  } catch (error) {
    place.replaceChildren(h("p", { class: "bad" }, error.message));
  }
}
