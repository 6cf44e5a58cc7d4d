// The view "Traffic": what the proxy has noted of the last minutes or hour, and rates by operation from now on.

import { get } from "./api.js";
import { card, grid, h, table } from "./dom.js";
import { bytes, count, folded, nanos, rate, visible } from "./format.js";
import { plot } from "./plot.js";
import { poll } from "./poll.js";

const SPANS = { 180: "3 minutes", 3600: "1 hour" };

function quantile(buckets, share) {
  const total = [...buckets.values()].reduce((sum, number) => sum + number, 0);
  let seen = 0;
  for (const [place, number] of [...buckets].sort(([one], [two]) => one - two)) {
    seen += number;
    if (number && seen >= share * total) return 2 ** place;
  }
  return null;
}

function since(now, before) {
  const earlier = new Map(before?.buckets ?? []);
  return new Map(now.buckets.map(([place, number]) => [place, number - (earlier.get(place) ?? 0)]));
}

const shortened = (text) => h("span", { title: visible(text) }, folded(visible(text)));

const budgetsCard = (budgets) => card("Budgets of the tree", table("Budgets", [
  ["Path", (row) => shortened(row.path), "path"],
  ["Writes a second", (row) => (row.writes ? count(row.writes) : "no limit"), "n"],
  ["Data a second", (row) => (row.bytes ? bytes(row.bytes) : "no limit"), "n"],
  ["Refused by this proxy", (row) => count(row.refused), "n"],
], budgets));

const busiest = (name, column, rows) => card(name, table(name, [
  [column[0], column[1], "path"],
  ["Reads", (row) => `${rate(row.reads)}/s`, "n"],
  ["Writes", (row) => `${rate(row.writes)}/s`, "n"],
], rows, "No request was sampled yet."));

const busiestCards = (found) => (found.one_in ? h("div", { class: "plots" },
  busiest("Busiest paths", ["Path", (row) => (row.path ? shortened(row.path) : "(no path)")], found.paths),
  busiest("Busiest sessions", ["Session, client, most at", (row) => shortened(`${row.session} ${row.client} ${row.path}`)], found.sessions)) : "");

export function traffic() {
  const element = h("div");
  let before = null;
  let stop = () => {};
  let seconds = 180;
  const choose = (wanted) => {
    seconds = wanted;
    stop();
    stop = poll(load);
  };

  const load = async () => {
    const [now, past, top] = await Promise.all([get("traffic"), get("traffic/history", { seconds }), get("top")]);
    // A process that has taken over counts anew.
    const isNew = before && Object.entries(before.operations).some(([name, each]) => each.count > (now.operations[name]?.count ?? 0));
    if (isNew) before = null;
    const elapsed = before ? Math.max(0.001, (now.nowMs - before.nowMs) / 1000) : null;
    const operations = Object.entries(now.operations).map(([name, each]) => {
      const then = before?.operations[name];
      const recent = before ? since(each, then) : new Map();
      return { name, ...each, recent, rate: before ? (each.count - (then?.count ?? 0)) / elapsed : 0 };
    });
    before = now;
    const perSecond = (value) => `${rate(value)}/s`;
    const span = past.everyMs * (past.points - 1);
    const focus = element.contains(document.activeElement) ? document.activeElement.innerText : null;
    element.replaceChildren(
      card("This proxy now", grid([
        ["Connections", count(now.connections)],
        ["Sessions", count(now.sessions)],
        ["Watches", count(now.watches)],
        ["Requests without an answer", count(now.outstanding)],
        ["Packets received", count(now.packetsReceived)],
        ["Packets sent", count(now.packetsSent)],
      ])),
      h("div", { class: "row-tools" }, h("div", { class: "segmented", role: "group", "aria-label": "Show the last" },
        Object.entries(SPANS).map(([each, name]) => h("button", {
          type: "button", "aria-pressed": String(Number(each) === seconds), onclick: () => choose(Number(each)),
        }, name)))),
      h("div", { class: "plots" },
        card("Requests a second", plot("Requests a second",
          [["read", "reads", past.reads], ["write", "writes", past.writes]], perSecond, past.points, span)),
        card("99 % are answered within", plot("99 % are answered within",
          [["read", "reads", past.readTime], ["write", "writes", past.writeTime]], nanos, past.points, span)),
        card("Log applied, of all proxies", plot("Log applied", [["write", "bytes a second", past.applied]], (value) => `${bytes(Math.round(value))}`, past.points, span)),
        card("Watch events sent", plot("Watch events sent", [["read", "events", past.events]], perSecond, past.points, span))),
      h("div", { class: "below" }, card("By operation", table("By operation", [
        ["Operation", (row) => h("span", { class: "mono" }, row.name)],
        ["Now", (row) => perSecond(row.rate), "n"],
        ["p50 now", (row) => show(row.recent, 0.5), "n"],
        ["p99 now", (row) => show(row.recent, 0.99), "n"],
        ["p50", (row) => show(new Map(row.buckets), 0.5), "n"],
        ["p99", (row) => show(new Map(row.buckets), 0.99), "n"],
        ["Mean", (row) => nanos(Math.round(row.nanos / row.count)), "n"],
        ["Since start", (row) => count(row.count), "n"],
      ], operations.sort((one, two) => two.rate - one.rate || two.count - one.count), "No request has come yet."))),
      busiestCards(top),
      now.budgets.length ? h("div", { class: "below" }, budgetsCard(now.budgets)) : "");
    if (focus !== null) [...element.querySelectorAll("button")].find((each) => each.innerText === focus)?.focus();
  };
  const show = (buckets, share) => {
    const found = quantile(buckets, share);
    return found === null ? "–" : `< ${nanos(found)}`;
  };
  return { element, show: () => { stop(); stop = poll(load); }, hide: () => stop() };
}
