// The views "Log" and "Proxies".

import { get } from "./api.js";
import { card, grid, h, table } from "./dom.js";
import { bytes, count, plural, span, time } from "./format.js";
import { poll } from "./poll.js";

const mono = (text) => h("span", { class: "mono" }, text);

export function log() {
  const element = h("div");
  let stop = () => {};
  const load = async () => {
    const now = await get("log");
    const snapshots = [["current", now.current], ["previous", now.previous]].filter(([, each]) => each)
      .map(([kind, each]) => ({ kind, ...each }));
    element.replaceChildren(
      card("The log at this proxy", grid([
        ["Head: etcd's revision, some seconds old", now.head === null ? "unknown" : count(Math.max(now.head, now.applied))],
        ["Applied: revision of the last entry", count(now.applied)],
        ["Behind etcd by", h("span", { class: now.ageMs > 5000 ? "bad" : "good" }, `${span(now.ageMs)} at most`)],
        ["Entries waiting to be applied", count(now.backlog)],
        ["Last zxid", mono(now.zxid)],
        ["Entries since the tree began", count(now.entries)],
        ["Level", now.level],
        ["Digest", h("span", null, mono(now.digest), ` after entry ${count(now.digestAt)}`)],
      ])),
      h("div", { class: "plots" },
        card("Entries", grid([
          ["Appended by this proxy", `${plural(now.sent.entries, "entry", "entries")} with ${plural(now.sent.requests, "request")}, ${bytes(now.sent.bytes)}`],
          ["Applied, of all proxies", `${plural(now.received.entries, "entry", "entries")} with ${plural(now.received.requests, "request")}, ${bytes(now.received.bytes)}`],
          ["In flight to etcd", count(now.sent.inFlight)],
          ["Sent again", count(now.sent.again)],
          ["Replaced after a refusal", count(now.sent.replaced)],
          ["State loaded again", count(now.reloads)],
          ["Digests that differed", h("span", { class: now.disagreements ? "bad" : "" }, count(now.disagreements))],
        ])),
        card("Truncation", grid([
          ["Kept", now.previous ? `entries behind revision ${count(now.previous.position)}: the previous snapshot has those before` : "all entries: there are not two snapshots yet"],
          ["Since the current snapshot", `${plural(now.sinceSnapshot.requests, "request")}, ${bytes(now.sinceSnapshot.bytes)}`],
          ["A snapshot is due", now.overdueMs ? h("span", { class: "warn" }, `since ${span(now.overdueMs)}`) : "no"],
          ["Snapshots by this proxy", `${count(now.snapshotsWritten)} written, ${count(now.snapshotsFailed)} failed`],
        ]))),
      h("div", { class: "below" }, card("Snapshots", table("Snapshots", [
        ["Snapshot", (row) => mono(row.name)],
        ["", (row) => h("span", { class: row.kind === "current" ? "badge on" : "badge" }, row.kind)],
        ["Revision", (row) => count(row.position), "n"],
        ["zxid", (row) => mono(row.zxid)],
        ["Znodes", (row) => count(row.nodes), "n"],
        ["Sessions", (row) => count(row.sessions), "n"],
        ["Pages", (row) => count(row.pages), "n"],
        ["Size", (row) => bytes(row.bytes), "n"],
      ], snapshots, "No snapshot was written yet."))),
      now.etcd ? card("etcd", grid([
        ["Database", `${bytes(now.etcd.bytes)}, ${bytes(now.etcd.inUse)} in use`],
        ["Last answer", `${span(now.etcd.silenceMs)} ago`],
        ["Quota", now.full ? h("span", { class: "bad" }, "used up: writes are refused") : "not used up"],
        ["Alarms", now.etcd.alarms.length ? h("span", { class: "bad" }, now.etcd.alarms.join("; ")) : "none"],
      ])) : null);
  };
  return { element, show: () => { stop(); stop = poll(load); }, hide: () => stop() };
}

// A link to another proxy's console, if it has an admin port; its address is what that proxy has registered.
const console_ = (row) => (!row.self && /^https?:\/\//.test(row.admin)
  ? [" ", h("a", { href: `${row.admin.replace(/\/+$/, "")}/console/`, rel: "noopener noreferrer" }, "console")] : null);

export function proxies() {
  const element = h("div");
  let stop = () => {};
  const load = async () => {
    const now = await get("proxies");
    element.replaceChildren(card(`Living proxies: ${now.rows.length}`, [
      table("Living proxies", [
        ["Proxy", (row) => h("span", null, mono(row.incarnation), " ",
          row.self ? h("span", { class: "badge on" }, "this one") : null, " ", row.eldest ? h("span", { class: "badge" }, "eldest") : null)],
        ["Host", (row) => (row.host ? h("span", null, row.host, console_(row)) : h("span", { class: "muted" }, "unknown"))],
        ["For clients", (row) => h("span", { class: "mono" }, row.listen || "–")],
        ["For proxies", (row) => h("span", { class: "mono" }, row.peers || "–")],
        ["Started", (row) => (row.startedMs ? time(row.startedMs) : "unknown"), "n"],
        ["Behind", (row) => behind(row, now), "n"],
        ["Last entry applied", (row) => `no. ${count(row.lastEntry)}`, "n"],
        ["Last heard", (row) => (row.self ? "now" : row.heardMs === null ? "not since this proxy started" : `${span(row.heardMs)} ago`), "n"],
        ["Sessions", (row) => count(row.sessions), "n"],
        ["Release", (row) => row.version],
        ["Levels", (row) => row.levels.join(", ")],
        ["Since revision", (row) => count(row.since), "n"],
      ], now.rows, "No proxy is registered in etcd."),
      now.rows.some((row) => row.peers) ? h("p", { class: "below" }, now.combined.why
        ? `This proxy appends its own entries: ${now.combined.why}.`
        : `Proxy ${now.combined.by} appends this one's entries.`) : null,
      now.copy ? h("p", { class: "below" }, `This tree follows another one, now at zxid ${now.copy.zxid}. `,
        now.copy.lagMs === null ? "How far it is behind is not known yet."
          : h("span", { class: now.copy.lagMs > 60000 ? "bad" : "good" }, `Behind: ${count(now.copy.behind)}. Level ${span(now.copy.lagMs)} ago.`)) : null,
      h("p", { class: "muted below" }, `Another proxy's distance is what its last entry said, exact to ${now.resolution} entries. `
        + `Clocks differ by ${span(now.clockSkewMs)} at most. Sessions of proxies that are gone: ${count(now.orphans)}.`),
    ]));
  };
  const behind = (row, now) => {
    if (row.self) return `${plural(row.behind, "entry", "entries")}, ${span(row.ageMs)}`;
    if (row.behind === null) return "unknown";
    return row.behind <= now.resolution ? `less than ${now.resolution} entries` : h("span", { class: "warn" }, plural(row.behind, "entry", "entries"));
  };
  return { element, show: () => { stop(); stop = poll(load); }, hide: () => stop() };
}
