// The view "Waiting": requests without an answer, and watches by path.

import { get } from "./api.js";
import { card, complain, grid, h, link, table } from "./dom.js";
import { count, folded, span, visible } from "./format.js";
import { poll } from "./poll.js";

export function waiting(app) {
  const requests = h("div");
  const watches = h("div");
  const field = h("input", { name: "prefix", class: "mono", "aria-label": "Paths that begin with", value: "/" });
  const open = (path) => link(folded(visible(path)), () => app.go("tree", path), visible(path));
  const session = (id) => link(id, () => app.go("sessions", id), `Session ${id}`);
  let stop = () => {};
  let rows = [];

  const load = async () => {
    const now = await get("pending");
    if (requests.contains(document.activeElement)) return; // it would lose the focus
    requests.replaceChildren(card("Requests without an answer", [
      grid([
        ["Clients that wait", count(now.clients)],
        ["Requests in the log", count(now.log.outstanding)],
        ["Appends in flight to etcd", count(now.log.inFlight)],
        ["etcd", h("span", { class: now.inTouch ? "good" : "bad" }, now.inTouch ? "answers" : `silent for ${span(now.silenceMs)}`)],
      ]),
      h("div", { class: "below" }, table("Requests without an answer", [
        ["Session", (row) => session(row.session)],
        ["Client", (row) => row.client],
        ["Waiting", (row) => count(row.outstanding), "n"],
        ["First requests", (row) => row.requests.map((each) =>
          h("div", null, `${each.operation} `, each.path ? open(each.path) : "", ` waits for ${each.waitsFor}, ${span(each.ms)} so far`))],
      ], now.rows, "No client waits.")),
    ]));
  };

  const watched = async (after) => {
    try {
      const page = await get("watches", { prefix: field.value, after });
      rows = after === undefined ? page.watches : rows.concat(page.watches);
      watches.replaceChildren(card("Watches of this proxy's clients, by path", [
        h("form", { class: "row-tools", onsubmit: (event) => { event.preventDefault(); watched(); } },
          h("div", { class: "field" }, h("label", null, "Paths that begin with", field)),
          h("button", { type: "submit" }, "Show")),
        table("Watches", [
          ["Path", (row) => open(row.path), "path"],
          ["Watches", (row) => count(row.total), "n"],
          ["Sessions", (row) => [row.watchers.map((each) => h("span", null, session(each.session), ` ${each.kind} `)),
            row.total > row.watchers.length ? "…" : null]],
        ], rows, "Nothing is watched."),
        page.next !== null ? h("p", { class: "below" }, h("button", { type: "button", onclick: () => watched(page.next) }, "Show more")) : null,
      ]));
    } catch (error) {
      complain(error);
    }
  };
  return {
    element: h("div", null, requests, watches),
    show: async () => { stop(); stop = poll(load); await watched(); },
    hide: () => stop(),
  };
}
