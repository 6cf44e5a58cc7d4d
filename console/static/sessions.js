// The view "Sessions": all sessions of the tree; one of them with its ephemerals and watches.

import { get } from "./api.js";
import { card, complain, grid, h, link, table } from "./dom.js";
import { count, span, time, visible } from "./format.js";

const PAGE = 100;

export function sessions(app) {
  const list = h("div");
  const detail = h("div");
  const element = h("div", null, detail, list);
  let rows = [];

  const load = async (after) => {
    try {
      const page = await get("sessions", { after, limit: PAGE });
      rows = after === undefined ? page.sessions : rows.concat(page.sessions);
      list.replaceChildren(card(`Sessions of the tree: ${count(page.total)}`, [
        table("Sessions", [
          ["Session", (row) => link(row.id, () => app.go("sessions", row.id), `Session ${row.id}`)],
          ["Client", (row) => row.client ?? (row.here ? "not connected" : h("span", { class: "muted" }, "at another proxy"))],
          ["Proxy", (row) => h("span", { class: "mono" }, row.proxy)],
          ["Timeout", (row) => span(row.timeoutMs), "n"],
          ["Ephemerals", (row) => count(row.ephemerals), "n"],
          ["Watches", (row) => (row.watches === null ? "–" : count(row.watches)), "n"],
          ["Waiting", (row) => (row.outstanding === null ? "–" : count(row.outstanding)), "n"],
        ], rows, "No client has a session."),
        page.next ? h("p", { class: "below" }, h("button", { type: "button", onclick: () => load(page.next) }, "Show more")) : null,
      ], h("button", { type: "button", onclick: () => load() }, "Reload")));
      complain(null);
    } catch (error) {
      complain(error);
    }
  };

  const show = async (id) => {
    detail.replaceChildren();
    if (id) {
      try {
        const found = await get("sessions/one", { id, limit: 500 });
        const open = (path) => link(visible(path), () => app.go("tree", path));
        detail.append(card(`Session ${found.id}`, [
          grid([
            ["Client", found.client ?? "not connected to this proxy"],
            ["Proxy", h("span", { class: "mono" }, found.proxy)],
            ["Timeout", span(found.timeoutMs)],
            found.sinceMs ? ["Connected", time(found.sinceMs)] : null,
            found.lastOperation ? ["Last operation", `${found.lastOperation}, ${found.lastLatencyMs.toFixed(1)} ms`] : null,
            found.received !== undefined ? ["Packets", `${count(found.received)} in, ${count(found.sent)} out`] : null,
            found.users.length ? ["Identities", found.users.map(visible).join(", ")] : null,
          ]),
          h("div", { class: "plots below" },
            h("div", null, h("h3", null, `Ephemerals: ${count(found.ephemerals)}`),
              table("Ephemerals", [["Path", open, "path"]], found.paths, "none")),
            h("div", null, h("h3", null, found.client ? `Watches: ${count(found.watches)}` : "Watches"),
              table("Watches", [["Path", (row) => open(row.path), "path"], ["Kind", (row) => row.kinds.join(", ")]], found.watched,
                found.client ? "none" : "The proxy that the client is connected to knows them."))),
        ], h("button", { type: "button", onclick: () => app.go("sessions", "") }, "Close")));
        complain(null);
      } catch (error) {
        detail.append(h("p", { class: "bad" }, error.message));
      }
    }
    await load();
  };
  return { element, show };
}
