// The view "Traffic": rates and latencies by operation, from the differences of counters.

import { get } from "./api.js";
import { card, grid, h, table } from "./dom.js";
import { bytes, count, nanos, rate } from "./format.js";
import { plot } from "./plot.js";
import { poll } from "./poll.js";

const POINTS = 90; // three minutes

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

function merged(maps) {
  const all = new Map();
  for (const map of maps) for (const [place, number] of map) all.set(place, (all.get(place) ?? 0) + number);
  return all;
}

export function traffic() {
  const element = h("div");
  let before = null;
  let stop = () => {};
  const history = { reads: [], writes: [], readTime: [], writeTime: [], applied: [], events: [] };
  const keep = (name, value) => {
    history[name].push(value);
    if (history[name].length > POINTS) history[name].shift();
  };

  const load = async () => {
    const now = await get("traffic");
    const seconds = before ? Math.max(0.001, (now.nowMs - before.nowMs) / 1000) : null;
    const operations = Object.entries(now.operations).map(([name, each]) => {
      const then = before?.operations[name];
      const recent = before ? since(each, then) : new Map();
      return { name, ...each, recent, rate: before ? (each.count - (then?.count ?? 0)) / seconds : 0 };
    });
    const sum = (update) => operations.filter((each) => each.update === update).reduce((all, each) => all + each.rate, 0);
    const p99 = (update) => quantile(merged(operations.filter((each) => each.update === update).map((each) => each.recent)), 0.99);
    if (before) {
      keep("reads", sum(false));
      keep("writes", sum(true));
      keep("readTime", p99(false));
      keep("writeTime", p99(true));
      keep("applied", (now.bytesApplied - before.bytesApplied) / seconds);
      keep("events", (now.notifications - before.notifications) / seconds);
    }
    before = now;
    const perSecond = (value) => `${rate(value)}/s`;
    element.replaceChildren(
      card("This proxy now", grid([
        ["Connections", count(now.connections)],
        ["Sessions", count(now.sessions)],
        ["Watches", count(now.watches)],
        ["Requests without an answer", count(now.outstanding)],
        ["Packets received", count(now.packetsReceived)],
        ["Packets sent", count(now.packetsSent)],
      ])),
      h("div", { class: "plots" },
        card("Requests a second", plot("Requests a second",
          [["read", "reads", history.reads], ["write", "writes", history.writes]], perSecond, POINTS)),
        card("99 % are answered within", plot("99 % are answered within",
          [["read", "reads", history.readTime], ["write", "writes", history.writeTime]], nanos, POINTS)),
        card("Log applied, of all proxies", plot("Log applied", [["write", "bytes a second", history.applied]], (value) => `${bytes(Math.round(value))}`, POINTS)),
        card("Watch events sent", plot("Watch events sent", [["read", "events", history.events]], perSecond, POINTS))),
      h("div", { class: "below" }, card("By operation", table("By operation", [
        ["Operation", (row) => h("span", { class: "mono" }, row.name)],
        ["Now", (row) => perSecond(row.rate), "n"],
        ["p50 now", (row) => show(row.recent, 0.5), "n"],
        ["p99 now", (row) => show(row.recent, 0.99), "n"],
        ["p50", (row) => show(new Map(row.buckets), 0.5), "n"],
        ["p99", (row) => show(new Map(row.buckets), 0.99), "n"],
        ["Mean", (row) => nanos(Math.round(row.nanos / row.count)), "n"],
        ["Since start", (row) => count(row.count), "n"],
      ], operations.sort((one, two) => two.rate - one.rate || two.count - one.count), "No request has come yet."))));
  };
  const show = (buckets, share) => {
    const found = quantile(buckets, share);
    return found === null ? "–" : `< ${nanos(found)}`;
  };
  return { element, show: () => { stop(); stop = poll(load); }, hide: () => stop() };
}
