// Keys: / to filter, arrows along rows, Enter to open, g and a letter to go somewhere, ? for all of them.

import { sayDialog } from "./dialog.js";
import { h } from "./dom.js";
import { go, href } from "./router.js";

const PLACES = {
  o: "overview", q: "queues", e: "exchanges", c: "connections", h: "channels", s: "consumers", m: "messages", n: "cluster", a: "admin",
};
const NEXT_KEY_MS = 1500;
let isGoing = false;
let timer = 0;

function help() {
  const lines = [["/", "filter"], ["↑ ↓ or k j", "along the rows"], ["Enter", "open the row"], ["x", "select the row"], ["r", "refresh"],
    ...Object.entries(PLACES).map(([key, place]) => [`g ${key}`, place]), ["?", "this list"]];
  sayDialog("Keys", h("dl", { class: "facts" }, lines.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))));
}

export function listenToKeys(refresh) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select");
    const table = document.querySelector("main data-table");
    if (isTyping) {
      if (event.key === "Escape") event.target.blur();
      if (event.target.matches(".filter") && (event.key === "ArrowDown" || event.key === "Enter")) table?.move(1);
      return;
    }
    if (isGoing) {
      isGoing = false;
      clearTimeout(timer);
      if (PLACES[event.key]) go(href([PLACES[event.key]]));
      return;
    }
    const actions = {
      "/": () => table?.focusFilter(), ArrowDown: () => table?.move(1), ArrowUp: () => table?.move(-1), j: () => table?.move(1), k: () => table?.move(-1),
      r: refresh, "?": help, g: () => { isGoing = true; timer = setTimeout(() => { isGoing = false; }, NEXT_KEY_MS); },
    };
    const action = actions[event.key];
    if (!action || (event.key.startsWith("Arrow") && !table)) return;
    event.preventDefault();
    action();
  });
}
