// The page's frame: login, tabs, theme, identities. Each view is a function that gives an element, show and hide.

import { get, post, whenLoggedOut } from "./api.js";
import { browse } from "./browse.js";
import { log, proxies } from "./cluster.js";
import { byId, complain, h, say } from "./dom.js";
import { ask, deletions } from "./edit.js";
import { bytes, plural, visible } from "./format.js";
import { sessions } from "./sessions.js";
import { traffic } from "./traffic.js";
import { waiting } from "./waiting.js";

const VIEWS = [
  ["tree", "Tree", browse],
  ["sessions", "Sessions", sessions],
  ["waiting", "Waiting", waiting],
  ["traffic", "Traffic", traffic],
  ["log", "Log", log],
  ["proxies", "Proxies", proxies],
];
const THEMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
const main = byId("main");

// -- theme

function theme(next) {
  const root = document.documentElement;
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("zketcd-theme", next);
  } catch {
    // storage is forbidden: the choice lasts as long as the page
  }
  return next;
}

function themeButton() {
  let kept = "auto";
  try {
    kept = localStorage.getItem("zketcd-theme") ?? "auto";
  } catch {
    // as above
  }
  let now = theme(THEMES[kept] ? kept : "auto");
  const button = h("button", { type: "button", onclick: () => {
    const names = Object.keys(THEMES);
    now = theme(names[(names.indexOf(now) + 1) % names.length]);
    button.textContent = THEMES[now];
  } }, THEMES[now]);
  return button;
}

// -- login

function login(message) {
  byId("tabs").replaceChildren();
  byId("facts").replaceChildren();
  byId("tools").replaceChildren(themeButton());
  main.className = "";
  const error = h("p", { class: "bad", role: "alert" }, message ?? "");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    error.textContent = "";
    try {
      start(await post("login", Object.fromEntries(new FormData(form))));
    } catch (failure) {
      error.textContent = failure.message;
      form.elements.password.value = "";
      form.elements.password.focus();
    }
  } },
  h("h2", null, "Log in"),
  h("div", { class: "field" }, h("label", null, "User", h("input", { name: "user", autocomplete: "username", required: true }))),
  h("div", { class: "field" }, h("label", null, "Password", h("input", { name: "password", type: "password", autocomplete: "current-password", required: true }))),
  error, h("button", { type: "submit", class: "main" }, "Log in"));
  main.replaceChildren(h("section", { class: "card login" }, form));
  form.elements.user.focus();
}

function identities(session, changed) {
  ask("Identities of this login", [
    h("p", null, session.identities.length ? `Now: ${session.identities.map(visible).join(", ")}.`
      : "None: only znodes that everybody may read are shown."),
    h("p", { class: "muted" }, "As the client's addauth with the scheme digest. The proxy keeps an identity in memory until you log out or it stops."),
    h("div", { class: "field" }, h("label", null, "User and password, separated by a colon",
      h("input", { name: "credentials", type: "password", autocomplete: "off", spellcheck: "false" }))),
    session.identities.length ? h("label", null, h("input", { type: "checkbox", name: "forget" }), " Forget those that are there") : null,
  ], "Save", async (values) => {
    let now = values.forget ? await post("identities/forget") : session;
    if (values.credentials || !values.forget) now = await post("identities", { credentials: values.credentials });
    session.identities = now.identities;
    changed();
  });
}

// -- views

function start(session) {
  complain(null);
  const views = session.write ? [...VIEWS, ["deletions", "Deletions", deletions]] : VIEWS;
  const made = {};
  let shown = null;
  const panel = h("div", { role: "tabpanel", id: "panel" });
  main.replaceChildren(panel);

  const app = {
    session,
    go: (name, argument) => {
      const wanted = `#${name}${argument ? `:${encodeURIComponent(argument)}` : ""}`;
      if (location.hash === wanted) route();
      else location.hash = wanted;
    },
    note: (name, argument) => history.replaceState(null, "", `#${name}:${encodeURIComponent(argument)}`),
    badge: (name, number) => {
      const tab = byId(`tab-${name}`);
      tab.querySelector(".badge")?.remove();
      if (number) tab.append(h("span", { class: "badge warn" }, number));
    },
  };

  const tabs = views.map(([name, title]) => h("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", "aria-selected": "false", tabindex: -1,
    onclick: () => app.go(name),
  }, title));
  byId("tabs").replaceChildren(...tabs);
  byId("tabs").onkeydown = (event) => {
    const place = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined || place < 0) return;
    event.preventDefault();
    const tab = tabs[(next + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  };

  const route = () => {
    const [, name, argument] = /^#([a-z]+)(?::(.*))?$/s.exec(location.hash) ?? [];
    const [chosen, title, make] = views.find(([each]) => each === name) ?? views[0];
    let text = "";
    try {
      text = decodeURIComponent(argument ?? "");
    } catch {
      // no address that this page has made: show the view without it
    }
    made[chosen] ??= make(app);
    if (shown && shown !== made[chosen]) shown.hide?.();
    if (shown !== made[chosen]) complain(null);
    shown = made[chosen];
    for (const tab of tabs) {
      const mine = tab.id === `tab-${chosen}`;
      tab.setAttribute("aria-selected", String(mine));
      tab.tabIndex = mine ? 0 : -1;
    }
    main.className = shown.split ? "split" : "";
    panel.setAttribute("aria-labelledby", `tab-${chosen}`);
    if (panel.firstElementChild !== shown.element) {
      panel.replaceChildren(shown.element);
      say("");
    }
    document.title = `${title} – zketcd console`;
    shown.show(text);
  };

  const head = () => {
    byId("facts").replaceChildren(
      h("span", { class: session.write ? "badge warn" : "badge" }, session.write ? "read and write" : "read only"),
      " ", h("b", null, session.prefix), ` · proxy ${session.proxy} · `,
      `${plural(session.znodes, "znode")}, ${bytes(session.bytes)} · ${plural(session.sessions, "session")} · zxid ${session.zxid}`,
      session.notReady ? h("span", { class: "bad" }, ` · ${session.notReady}`) : "");
    byId("tools").replaceChildren(
      h("button", { type: "button", onclick: () => identities(session, () => { head(); reset(); }) },
        session.identities.length ? `Identities: ${session.identities.length}` : "Add identity"),
      themeButton(),
      ...(session.users ? [h("button", { type: "button", class: "user", title: session.user, onclick: async () => { await post("logout"); leave(); } }, `Log out ${session.user}`)] : []));
  };
  // What may be read has changed: show the view anew.
  const reset = () => {
    shown?.hide?.();
    for (const name of Object.keys(made)) delete made[name];
    shown = null;
    panel.replaceChildren();
    route();
  };
  const leave = (message) => {
    clearInterval(timer);
    shown?.hide?.();
    window.onhashchange = null;
    login(message);
  };
  const timer = setInterval(async () => {
    if (document.hidden) return;
    try {
      const now = await get("session");
      if (now.login) leave("Your login has ended.");
      else Object.assign(session, now);
      if (!now.login) head();
    } catch {
      // the view that is shown reports what is wrong
    }
  }, 5000);
  onLoggedOut = () => leave("Your login has ended.");
  window.onhashchange = route;
  head();
  route();
}

let onLoggedOut = () => {};
whenLoggedOut(() => onLoggedOut());

try {
  const session = await get("session");
  if (session.login) login();
  else start(session);
} catch (error) {
  complain(error);
}
