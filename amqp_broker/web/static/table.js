// <data-table>: a page of rows as the server sorts, filters and cuts them. What is shown stands in the address.

import { get, query as write } from "./api.js";
import { h, patch } from "./dom.js";
import { count } from "./format.js";
import { remember, remembered } from "./preferences.js";
import { go, here, setQuery } from "./router.js";

const PAGE_SIZES = [25, 50, 100, 200];
const TYPING_MS = 250;

// options: {name, path() , columns: [{key, title, render(row), sort, isNumber, isHidden}], id(row), href(row),
//   filter, actions: [{title, isDanger, run(rows)}], rowActions: [{title, run(row)}], buttons, empty, query,
//   prefix: of its keys in the address, where a page has two tables}
class DataTable extends HTMLElement {
  #options;
  #selected = new Map();
  #rows = new Map();
  #typing = 0;
  #asked = 0;
  #filter; #regex; #pager; #head; #body; #many; #chooser; #message; #frame;

  set options(options) {
    this.#options = { prefix: "", actions: [], rowActions: [], empty: "Nothing here.", ...options };
    this.#build();
  }

  #build() {
    const { filter, buttons = [], name, columns } = this.#options;
    this.#filter = h("input", {
      type: "search", class: "filter", placeholder: filter ?? "Filter by name", "aria-label": filter ?? "Filter by name",
      title: "Press / to come here", spellcheck: "false", autocomplete: "off", oninput: () => this.#type(),
    });
    this.#regex = h("input", { type: "checkbox", onchange: () => this.#set({ use_regex: this.#regex.checked || null, page: null }) });
    this.#pager = h("nav", { class: "pager", "aria-label": "pages" });
    this.#many = h("div", { class: "many" });
    this.#message = h("p", { class: "message", hidden: true });
    this.#head = h("tr");
    this.#body = h("tbody");
    this.#chooser = h("details", { class: "chooser" }, h("summary", {}, "Columns"), h("div", {}, columns.map((column) =>
      h("label", {}, h("input", { type: "checkbox", checked: this.#isShown(column), onchange: (event) => this.#choose(column, event.target.checked) }), column.title))));
    this.#frame = h("div", { class: "frame" }, h("table", {}, h("thead", {}, this.#head), this.#body));
    this.replaceChildren(
      h("div", { class: "bar" },
        filter === false ? null : [this.#filter, h("label", { class: "regex", title: "as a regular expression" }, this.#regex, ".*")],
        this.#many, h("span", { class: "gap" }), name ? this.#chooser : null, buttons),
      this.#frame, this.#message, this.#pager);
    this.#body.addEventListener("click", (event) => this.#click(event));
    this.#body.addEventListener("keydown", (event) => this.#key(event));
    this.#head.addEventListener("click", (event) => this.#clickHead(event));
  }

  #value(key) {
    return here().query[this.#options.prefix + key];
  }

  #set(changes, options) {
    setQuery(Object.fromEntries(Object.entries(changes).map(([key, value]) => [this.#options.prefix + key, value])), options);
    return this.refresh();
  }

  #type() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#set({ name: this.#filter.value || null, page: null }, { isStep: false }), TYPING_MS);
  }

  #size() {
    return Number(this.#value("page_size") ?? remembered("page_size", 50));
  }

  async refresh() {
    const number = this.#asked += 1;
    if (document.activeElement !== this.#filter) this.#filter.value = this.#value("name") ?? "";
    this.#regex.checked = this.#value("use_regex") === "true";
    const asked = {
      page: this.#value("page") ?? 1, page_size: this.#size(), name: this.#value("name"), use_regex: this.#value("use_regex") || null,
      sort: this.#value("sort"), sort_reverse: this.#value("sort_reverse"), ...this.#options.query?.(),
    };
    try {
      const found = await get(this.#options.path() + write(asked));
      if (number === this.#asked && this.isConnected) this.#show(found);
    } catch (error) {
      if (number !== this.#asked) return;
      if (error.status === 400 && String(error.message).startsWith("page_out_of_range")) {
        await this.#set({ page: null }, { isStep: false });
        return;
      }
      this.#say(error.message, true);
    }
  }

  #say(text, isProblem = false) {
    this.#message.textContent = text;
    this.#message.hidden = !text;
    this.#message.classList.toggle("problem", isProblem);
    if (isProblem) this.#frame.classList.add("old");
  }

  #columns() {
    return this.#options.columns.filter((column) => this.#isShown(column));
  }

  #isShown(column) {
    const chosen = remembered(`columns.${this.#options.name}`, {});
    return chosen[column.key] ?? !column.isHidden;
  }

  #choose(column, isShown) {
    const name = `columns.${this.#options.name}`;
    remember(name, { ...remembered(name, {}), [column.key]: isShown });
    this.#rows.clear();
    this.#body.replaceChildren();
    this.refresh();
  }

  #show(found) {
    this.#frame.classList.remove("old");
    const columns = this.#columns();
    this.#showHead(columns);
    const rows = new Map();
    for (const item of found.items) rows.set(this.#id(item), this.#showRow(item, columns));
    for (const [id, row] of this.#rows) if (!rows.has(id)) row.remove();
    let before = null;
    for (const row of rows.values()) {
      if (row !== (before ? before.nextSibling : this.#body.firstChild)) this.#body.insertBefore(row, before ? before.nextSibling : this.#body.firstChild);
      before = row;
    }
    this.#rows = rows;
    const isFiltered = found.filtered_count !== found.total_count;
    this.#say(found.items.length ? "" : isFiltered || this.#value("name") ? "Nothing fits the filter." : this.#options.empty);
    this.#frame.hidden = !found.items.length;
    this.#showPager(found, isFiltered);
    this.#showMany();
  }

  #id(item) {
    return this.#options.id ? this.#options.id(item) : `${item.vhost ?? ""}\0${item.name}`;
  }

  #showHead(columns) {
    const sort = this.#value("sort");
    const isReversed = this.#value("sort_reverse") === "true";
    const hasActions = this.#options.rowActions.length;
    patch(this.#head,
      this.#options.actions.length ? h("th", { class: "tick" }, h("input", { type: "checkbox", "aria-label": "select all on this page" })) : null,
      columns.map((column) => {
        const key = column.sort === false ? null : column.sort ?? column.key;
        const isSorted = key && sort === key;
        return h("th", {
          class: classOf(column), scope: "col",
          "aria-sort": isSorted ? (isReversed ? "descending" : "ascending") : null,
        }, key ? h("button", { type: "button", "data-sort": key }, column.title, isSorted ? (isReversed ? " ↓" : " ↑") : "") : column.title);
      }),
      hasActions ? h("th", {}) : null);
  }

  #showRow(item, columns) {
    const id = this.#id(item);
    const row = this.#rows.get(id) ?? h("tr", { tabindex: "-1" });
    row.item = item;
    row.key = id;
    if (this.#selected.has(id)) this.#selected.set(id, item);
    patch(row,
      this.#options.actions.length ? h("td", { class: "tick" }, h("input", { type: "checkbox", "aria-label": "select" })) : null,
      columns.map((column) => showCell(column, item)),
      this.#options.rowActions.length ? h("td", { class: "actions" }, this.#options.rowActions.filter((each) => each.isFor?.(item) ?? true)
        .map((action) => h("button", { type: "button", class: "small", "data-action": action.title }, action.title))) : null);
    const box = row.querySelector(".tick input");
    if (box) box.checked = this.#selected.has(id);
    return row;
  }

  #showPager(found, isFiltered) {
    const { page, page_count: pages } = found;
    const step = (title, target, isOff) => h("button", { type: "button", disabled: isOff, "data-page": target }, title);
    const sizes = h("select", { "aria-label": "rows on a page", onchange: (event) => {
      remember("page_size", Number(event.target.value));
      this.#set({ page_size: null, page: null });
    } }, [...new Set([...PAGE_SIZES, this.#size()])].sort((a, b) => a - b).map((size) => h("option", { value: size, selected: size === this.#size() }, size)));
    const text = isFiltered ? `${count(found.filtered_count)} of ${count(found.total_count)}` : `${count(found.total_count)} in all`;
    patch(this.#pager, !found.total_count ? null : h("span", { class: "total" }, text), pages > 1 ? [step("‹", page - 1, page <= 1), h("span", {}, `${page} / ${pages}`), step("›", page + 1, page >= pages)] : null,
      found.total_count > PAGE_SIZES[0] ? h("label", {}, sizes, " a page") : null);
    this.#pager.onclick = (event) => {
      const target = event.target.closest("[data-page]");
      if (target) this.#set({ page: target.dataset.page }).then(() => this.scrollIntoView({ block: "start" }));
    };
  }

  #showMany() {
    const number = this.#selected.size;
    const all = this.#head.querySelector(".tick input");
    if (all) all.checked = this.#rows.size > 0 && [...this.#rows.keys()].every((id) => this.#selected.has(id));
    patch(this.#many, number ? [h("b", {}, `${count(number)} selected`), this.#options.actions.map((action) =>
      h("button", { type: "button", class: action.isDanger ? "danger small" : "small", "data-many": action.title }, action.title)),
      h("button", { type: "button", class: "small", "data-many": "" }, "None")] : null);
    this.#many.onclick = async (event) => {
      const target = event.target.closest("[data-many]");
      if (!target) return;
      const action = this.#options.actions.find((each) => each.title === target.dataset.many);
      if (!action || await action.run([...this.#selected.values()])) this.#selected.clear();
      await this.refresh();
    };
  }

  #tick(row, isTicked) {
    if (isTicked) this.#selected.set(row.key, row.item);
    else this.#selected.delete(row.key);
    row.querySelector(".tick input").checked = isTicked;
    this.#showMany();
  }

  #clickHead(event) {
    const button = event.target.closest("[data-sort]");
    if (button) {
      const key = button.dataset.sort;
      const isSame = this.#value("sort") === key;
      const isReversed = this.#value("sort_reverse") === "true";
      const column = this.#options.columns.find((each) => (each.sort ?? each.key) === key);
      // Numbers begin with the greatest; the third time it is as it was.
      const first = column?.isNumber ? "true" : null;
      const next = !isSame ? [key, first] : (isReversed ? "true" : null) === first ? [key, first ? null : "true"] : [null, null];
      this.#set({ sort: next[0], sort_reverse: next[1], page: null });
    } else if (event.target.closest(".tick input")) {
      const isTicked = event.target.checked;
      for (const row of this.#rows.values()) this.#tick(row, isTicked);
    }
  }

  #click(event) {
    const row = event.target.closest("tr");
    if (!row) return;
    const button = event.target.closest("[data-action]");
    if (event.target.closest(".tick input")) this.#tick(row, event.target.checked);
    else if (button) {
      const action = this.#options.rowActions.find((each) => each.title === button.dataset.action);
      Promise.resolve(action.run(row.item)).then(() => this.refresh());
    }
  }

  #key(event) {
    const row = event.target.closest("tr");
    if (event.target !== row) return;
    if (event.key === "Enter" && this.#options.href) go(this.#options.href(row.item));
    else if ((event.key === "x" || event.key === " ") && this.#options.actions.length) {
      event.preventDefault();
      this.#tick(row, !this.#selected.has(row.key));
    }
  }

  // Keys of the page: / and arrows.
  focusFilter() {
    this.#filter.focus();
    this.#filter.select();
  }

  move(step) {
    const rows = [...this.#body.children];
    const at = rows.indexOf(document.activeElement?.closest("tr"));
    rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))]?.focus();
  }
}

function classOf(column) {
  return [column.isNumber ? "number" : null, column.isWide ? "wide" : null, column.isForRoom ? "roomy" : null].filter(Boolean).join(" ") || null;
}

// Noughts are pale, so that what happens is seen.
function showCell(column, item) {
  const cell = h("td", { class: classOf(column) }, column.render(item));
  if (column.isNumber && /^(0|0\/s|0 B\/s|–)$/.test(cell.textContent)) cell.classList.add("zero");
  return cell;
}

customElements.define("data-table", DataTable);

export function table(options) {
  const element = document.createElement("data-table");
  element.options = options;
  return element;
}
