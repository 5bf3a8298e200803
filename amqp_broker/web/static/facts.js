// Parts that several pages have: lists of facts, tabs, charts in a row, headings.

import { h, patch } from "./dom.js";
import { here, href, setQuery } from "./router.js";

// A list of facts: [[title, value], ...]; what has no value is left out.
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== undefined && value !== null)
    .map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value === "" ? "–" : value))));
}

// Numbers that are to be seen at once.
export function figures(pairs) {
  return h("div", { class: "figures" }, pairs.map(([title, value, where]) => {
    const inner = [h("b", {}, value), h("span", {}, title)];
    return where ? h("a", { href: where }, inner) : h("div", {}, inner);
  }));
}

export function heading(title, ...more) {
  return h("header", { class: "heading" }, h("h1", {}, title), ...more);
}

export function crumbs(kind, list, ...more) {
  return h("p", { class: "crumbs" }, h("a", { href: href([list]) }, kind), ...more);
}

// Sections of which one is shown; which, stands in the address. sections: [[key, title, node, refresh?]]
export function tabs(sections) {
  const bar = h("div", { class: "tabs", role: "tablist" });
  const body = h("div", { class: "tab" });
  const chosen = () => sections.find(([key]) => key === here().query.tab) ?? sections[0];
  const show = () => {
    const [current, , node] = chosen();
    patch(bar, sections.map(([key, title]) => h("button", {
      type: "button", role: "tab", "data-tab": key, "aria-selected": String(key === current),
    }, title)));
    if (body.firstChild !== node) body.replaceChildren(node);
  };
  bar.addEventListener("click", (event) => {
    const key = event.target.closest("[data-tab]")?.dataset.tab;
    if (!key) return;
    const others = Object.fromEntries(Object.keys(here().query).filter((each) => each !== "vhost").map((each) => [each, null]));
    setQuery({ ...others, tab: key });
    show();
    refresh();
  });
  const refresh = async () => {
    show();
    await chosen()[3]?.();
  };
  show();
  return { node: h("div", { class: "tabbed" }, bar, body), refresh };
}

export function meter(used, total, text, limit = 0.9) {
  const share = total ? used / total : 0;
  return h("span", { class: "metered" }, h("meter", { min: 0, max: 1, value: share, high: limit, optimum: 0 }), h("span", {}, text));
}
