// The frame: login, navigation, the page of the address, and its refreshing while it is looked at.

import * as api from "./api.js";
import { attempt, formDialog } from "./dialog.js";
import { h, patch } from "./dom.js";
import { listenToKeys } from "./keys.js";
import { remember, remembered } from "./preferences.js";
import { find, go, here, href } from "./router.js";
import { chooseVhost, chosenVhost, vhostNames } from "./vhosts.js";
import { loginPage } from "./pages/login.js";
import { overviewPage } from "./pages/overview.js";
import { queuesPage } from "./pages/queues.js";
import { queuePage } from "./pages/queue.js";
import { exchangesPage } from "./pages/exchanges.js";
import { exchangePage } from "./pages/exchange.js";
import { connectionsPage, channelsPage, consumersPage } from "./pages/clients.js";
import { connectionPage } from "./pages/connection.js";
import { channelPage } from "./pages/channel.js";
import { clusterPage } from "./pages/cluster.js";
import { nodePage } from "./pages/node.js";
import { messagesPage } from "./pages/messages.js";
import { adminPage } from "./pages/admin.js";
import { auditPage } from "./pages/audit.js";
import { userPage } from "./pages/user.js";
import { vhostPage } from "./pages/vhost.js";

const ROUTES = [
  [["overview"], overviewPage], [["queues"], queuesPage], [["queues", ":vhost", ":queue"], queuePage],
  [["exchanges"], exchangesPage], [["exchanges", ":vhost", ":exchange"], exchangePage],
  [["connections"], connectionsPage], [["connections", ":name"], connectionPage],
  [["channels"], channelsPage], [["channels", ":name"], channelPage], [["consumers"], consumersPage], [["messages"], messagesPage],
  [["cluster"], clusterPage], [["cluster", ":node"], nodePage], [["admin"], adminPage],
  [["audit"], auditPage], [["users", ":user"], userPage], [["vhosts", ":vhost"], vhostPage],
];
const PLACES = [["overview", "Overview"], ["queues", "Queues"], ["exchanges", "Exchanges"], ["connections", "Connections"],
  ["channels", "Channels"], ["consumers", "Consumers"], ["messages", "Messages"], ["cluster", "Cluster"],
  ["admin", "Admin"], ["audit", "Audit"]];
const BELONGS = { users: "admin", vhosts: "admin" };
const INTERVALS = [[5, "5 s"], [10, "10 s"], [30, "30 s"], [0, "paused"]];

const main = h("main", { id: "main", tabindex: "-1" });
const nav = h("nav", { class: "places", "aria-label": "pages" });
const state = h("p", { id: "state", role: "status", hidden: true });
const vhosts = h("select", { "aria-label": "virtual host", title: "virtual host" });
let page = null;
let shownPath = null;
let timer = 0;
let isRefreshing = false;

function frame(cluster) {
  vhosts.onchange = () => { chooseVhost(vhosts.value); route(); };
  const interval = h("select", { "aria-label": "refresh", title: "how often this page is refreshed", onchange: (event) => { remember("refresh", Number(event.target.value)); schedule(); } },
    INTERVALS.map(([seconds, title]) => h("option", { value: seconds, selected: seconds === remembered("refresh", 5) }, title)));
  const header = h("header", { id: "top" },
    h("a", { href: "#/overview", class: "cluster", title: "cluster" }, cluster), nav,
    h("div", { class: "tools" }, vhosts, interval, h("button", { type: "button", class: "plain", title: "light or dark", "aria-label": "light or dark", onclick: switchTheme }, "◐"),
      h("button", { type: "button", class: "plain user", title: `${api.session.tags.join(", ")}: change the password`, onclick: changePassword }, api.session.user),
      h("button", { type: "button", class: "plain", id: "logout", onclick: leave }, "Log out")));
  document.body.replaceChildren(header, state, main);
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  remember("theme", root.dataset.theme);
  document.dispatchEvent(new CustomEvent("theme"));
}

function changePassword() {
  const fields = [["old_password", "Old password"], ["password", "New password"], ["again", "New password again"]];
  return formDialog("Change your password", fields.map(([name, label]) => ({ name, label, type: "password", required: true })), {
    note: "All your sessions end: log in again with the new one.",
    run: async ({ again, ...body }) => {
      if (again !== body.password) throw new Error("The new password is not the same twice.");
      await api.put("v1/password", body);
    },
  });
}

async function leave() {
  await attempt("", api.logOut);
  start();
}

async function showVhosts() {
  const names = await vhostNames();
  const chosen = chosenVhost();
  if (document.activeElement === vhosts) return;
  patch(vhosts, h("option", { value: "" }, "all vhosts"), [...new Set([...names, chosen].filter(Boolean))].map((name) => h("option", { value: name }, name)));
  vhosts.value = chosen;
}

function route() {
  const { segments, path } = here();
  if (!segments.length) {
    location.replace(href(["overview"]));
    return;
  }
  const current = BELONGS[segments[0]] ?? segments[0];
  patch(nav, PLACES.filter(([key]) => key !== "audit" || api.isAdministrator()).map(([key, title]) => h("a", { href: href([key]), "aria-current": key === current ? "page" : null }, title)));
  const found = find(ROUTES, segments);
  const isSame = page && shownPath === path;
  if (!isSame) {
    shownPath = path;
    page = found ? found.page(...found.names) : { node: h("p", { class: "message" }, "There is no such page."), refresh: async () => {} };
    main.replaceChildren(page.node);
    main.ariaBusy = "true"; // until all of it was answered once
    scrollTo(0, 0);
    document.title = [segments.at(-1), document.querySelector("#top .cluster")?.textContent].filter(Boolean).join(" · ");
  }
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  const shown = page;
  isRefreshing = true;
  try {
    await shown.refresh();
    if (shown === page) main.ariaBusy = null;
    await showVhosts();
  } catch (error) {
    if (shown === page && error.status === 404) gone(error);
    else if (shown === page && error.status && error.status !== 503 && error.code !== "session_ended") say(error.message);
    else if (!(error instanceof api.ApiError)) throw error;
  } finally {
    isRefreshing = false;
    schedule();
  }
}

function gone() {
  main.ariaBusy = null;
  main.replaceChildren(h("p", { class: "message" }, "This is not here any more."));
}

function schedule() {
  clearTimeout(timer);
  const seconds = remembered("refresh", 5);
  if (seconds && !document.hidden && api.session.user && !isRefreshing) timer = setTimeout(refresh, seconds * 1000);
}

function say(text) {
  state.textContent = text;
  state.hidden = !text;
}

async function start() {
  clearTimeout(timer);
  page = null;
  if (!await api.whoAmI()) {
    document.body.replaceChildren(loginPage(start));
    return;
  }
  let cluster = "broker";
  try {
    cluster = (await api.get("cluster-name")).name;
  } catch { /* The node is away: its name comes with the next login. */ }
  frame(cluster);
  route();
}

document.addEventListener("session-ended", () => { if (api.session.user) start(); });
document.addEventListener("node-state", ({ detail }) => {
  if (!api.session.user) return;
  main.classList.toggle("old", !detail.isThere);
  if (!detail.isThere) say(`The node does not answer; what is shown is old. ${detail.reason}`);
  else say(detail.stale ? `These members did not answer, theirs is missing: ${detail.stale}` : "");
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && api.session.user && page) refresh(); });
addEventListener("hashchange", () => { if (api.session.user) route(); });
addEventListener("popstate", () => { if (api.session.user) route(); });
document.addEventListener("refresh", refresh);
listenToKeys(refresh);
start().catch((error) => document.body.replaceChildren(h("p", { class: "message problem" }, error.message)));
