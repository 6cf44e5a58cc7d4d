// The view "Sessions": all sessions of the tree, sorted and filtered; one of them with its ephemerals and watches.

import { get, post } from "./api.js";
import { card, complain, grid, h, link, say, table } from "./dom.js";
import { ask } from "./edit.js";
import { count, folded, plural, span, time, visible } from "./format.js";
import { poll } from "./poll.js";

const PAGE = 100;
const proxy = (row) => h("span", null, row.host ? `${row.host} ` : null, h("span", { class: "mono muted" }, row.proxy));
const TYPING = 250; // ms after the last key until the filter is used

export function sessions(app) {
  const list = h("div");
  const detail = h("div");
  const field = h("input", { class: "mono", "aria-label": "Show only sessions with", placeholder: "id, client, proxy, host", autocomplete: "off", spellcheck: "false" });
  const head = h("h3");
  const pages = h("div", { class: "buttons below" });
  const rows = h("div");
  const element = h("div", null, detail, list);
  list.append(h("section", { class: "card" },
    h("div", { class: "bar" }, head, h("div", { class: "buttons" }, field)), h("div", { class: "body" }, rows, pages)));
  let sort = "id";
  let down = false;
  let offset = 0;
  let stop = () => {};
  let typing = 0;

  const again = () => {
    stop();
    stop = poll(load);
  };
  const sorted = (key, title) => h("button", {
    type: "button", class: "sort", "data-sort": key,
    "aria-label": `${title}: ${sort === key ? (down ? "sorted down" : "sorted up") : "not sorted"}`,
    onclick: () => {
      // Counts are interesting from the largest one down.
      down = sort === key ? !down : ["ephemerals", "watches", "waiting"].includes(key);
      sort = key;
      offset = 0;
      again();
    },
  }, title, sort === key ? (down ? " ▾" : " ▴") : "");

  const load = async () => {
    const page = await get("sessions", { sort, order: down ? "down" : "up", text: field.value, offset, limit: PAGE });
    if (offset && offset >= page.matching) {
      offset = 0;
      await load();
      return;
    }
    head.textContent = field.value ? `${count(page.matching)} of ${plural(page.total, "session")} of the tree` : `${plural(page.total, "session")} of the tree`;
    const focused = rows.contains(document.activeElement) ? document.activeElement : null;
    const key = focused?.dataset.sort ?? focused?.innerText;
    rows.replaceChildren(table("Sessions", [
      [sorted("id", "Session"), (row) => link(row.id, () => app.go("sessions", row.id), `Session ${row.id}`)],
      [sorted("client", "Client"), (row) => row.client ?? h("span", { class: "muted" }, row.here ? "not connected" : "at another proxy")],
      [sorted("proxy", "Proxy"), proxy],
      [sorted("timeout", "Timeout"), (row) => span(row.timeoutMs), "n"],
      [sorted("ephemerals", "Ephemerals"), (row) => count(row.ephemerals), "n"],
      [sorted("watches", "Watches"), (row) => (row.watches === null ? "–" : count(row.watches)), "n"],
      [sorted("waiting", "Waiting"), (row) => (row.outstanding === null ? "–" : count(row.outstanding)), "n"],
    ], page.sessions, field.value ? "No session matches." : "No client has a session."));
    if (key) [...rows.querySelectorAll("button")].find((each) => (each.dataset.sort ?? each.innerText) === key)?.focus();
    const turn = (words, next, possible) => h("button", { type: "button", disabled: !possible, onclick: () => { offset = next; again(); } }, words);
    if (!pages.contains(document.activeElement)) pages.replaceChildren(...(page.matching <= PAGE ? [] : [
      turn("Previous", Math.max(0, offset - PAGE), offset > 0), turn("Next", offset + PAGE, offset + PAGE < page.matching),
      h("span", { class: "muted" }, `${count(offset + 1)}–${count(offset + page.sessions.length)} of ${count(page.matching)}`)]));
  };
  pages.addEventListener("click", () => document.activeElement.blur());
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { offset = 0; again(); }, TYPING);
  });

  const endDialog = (found) => ask(`End session ${found.id}?`, [
    h("p", null, `${found.client ? `Its client is ${found.client}. ` : ""}${plural(found.ephemerals, "ephemeral is", "ephemerals are")} deleted with it, and its client has to begin another session.`),
  ], "End session", async () => {
    await post("sessions/end", { id: found.id });
    say(`Ended session ${found.id}`);
    app.go("sessions", "");
  }, "danger");

  const show = async (id) => {
    detail.replaceChildren();
    if (id) {
      try {
        const found = await get("sessions/one", { id, limit: 500 });
        const open = (path) => link(folded(visible(path)), () => app.go("tree", path), visible(path));
        const none = found.client ? "none" : "The proxy that the client is connected to knows them.";
        detail.replaceChildren(card(`Session ${found.id}`, [
          grid([
            ["Client", found.client ?? "not connected to this proxy"],
            ["Proxy", proxy(found)],
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
              table("Watches", [["Path", (row) => open(row.path), "path"], ["Kind", (row) => row.kinds.join(", ")]], found.watched, none))),
        ], ...(app.session.write ? [h("button", { type: "button", class: "danger", onclick: () => endDialog(found) }, "End session…")] : []),
        h("button", { type: "button", onclick: () => app.go("sessions", "") }, "Close")));
        complain(null);
      } catch (error) {
        detail.replaceChildren(h("p", { class: "bad" }, error.message));
      }
    }
    again();
  };
  return { element, show, hide: () => stop() };
}
