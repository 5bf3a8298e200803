// Dialogs: a form that stays open until the server has accepted it, questions before what cannot be undone, and notes.

import { append, h, lines } from "./dom.js";
import { here, setQuery } from "./router.js";

const ASK = "What would happen?";

// submit: {title, run(), isReady(), preview()}. With a preview the first press shows what would happen, the second does it;
// whatever is typed in between has it shown again.
function open(title, content, submit, { isDanger = false } = {}) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const shown = h("div", { class: "preview", role: "status" });
  let isShown = !submit.preview;
  const button = h("button", { type: "submit", class: isDanger ? "danger" : "primary" }, isShown ? submit.title : ASK);
  const cancel = h("button", { type: "button" }, "Cancel");
  const form = h("form", { method: "dialog" }, h("h2", {}, title), content, shown, problem,
    h("footer", {}, cancel, button));
  const dialog = h("dialog", { "aria-label": title }, form);
  return new Promise((resolve) => {
    let result = null;
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const giveBack = keepFocus(button);
      button.disabled = true;
      problem.hidden = true;
      try {
        if (isShown) {
          result = await submit.run() ?? true;
          dialog.close();
        } else {
          append(shown, [await submit.preview()]);
          isShown = true;
          button.textContent = submit.title;
        }
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      } finally {
        button.disabled = submit.isReady ? !submit.isReady() : false;
        giveBack();
      }
    });
    if (submit.preview) {
      form.addEventListener("input", () => {
        isShown = false;
        button.textContent = ASK;
        shown.replaceChildren();
      });
    }
    if (submit.isReady) {
      button.disabled = true;
      form.addEventListener("input", () => { button.disabled = !submit.isReady(); });
    }
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input:not([disabled]), select, textarea") ?? cancel).focus();
  });
}

// A button that is disabled for a while loses the focus: returns what gives it back, unless something else has it by then.
function keepFocus(button) {
  const hadIt = document.activeElement === button;
  return () => {
    if (hadIt && (document.activeElement === document.body || document.activeElement === null || document.activeElement.matches("dialog"))) button.focus();
  };
}

// fields: [{name, label, type: text|number|password|select|checkbox|area|json|datetime-local, value, options, hint, required, keys, when}]
// keys: what may be put into a JSON object, each NAME or NAME=VALUE; or a function that says it of what stands in the fields.
// when: says of that whether the field is shown; it counts as empty while it is not.
export function makeFields(fields) {
  const inputs = new Map();
  const shelves = [];
  const dependent = [];
  const labels = fields.map((field) => {
    const input = makeInput(field);
    inputs.set(field.name, [field, input]);
    const shelf = field.keys ? h("div", { class: "keys" }) : null;
    const keysFor = typeof field.keys === "function" ? field.keys : () => field.keys;
    if (shelf) shelves.push([shelf, (values) => keysFor(values).map((key) => h("button", { type: "button", class: "key", onclick: () => addKey(input, key) }, key))]);
    const isBox = field.type === "checkbox";
    const label = h("div", { class: isBox ? "field box" : "field" },
      h("label", {}, isBox ? [input, field.label] : [h("span", {}, field.label), input]),
      shelf,
      field.hint ? h("small", {}, field.hint) : null);
    if (field.when) dependent.push([label, input, field.when]);
    return label;
  });
  const fill = () => {
    const values = Object.fromEntries([...inputs].map(([name, [, input]]) => [name, input.value]));
    for (const [shelf, keys] of shelves) shelf.replaceChildren(...keys(values));
    for (const [label, input, when] of dependent) input.disabled = label.hidden = !when(values);
  };
  if (shelves.length || dependent.length) {
    for (const [{ type }, input] of inputs.values()) if (type === "select") input.addEventListener("input", fill);
    fill();
  }
  return { labels, fill, read: () => Object.fromEntries([...inputs].map(([name, pair]) => [name, readInput(...pair)])), inputs };
}

function makeInput({ type = "text", value, options, required, name, placeholder, min }) {
  if (type === "select") {
    return h("select", { name }, options.map((each) => {
      const [key, title] = Array.isArray(each) ? each : [each, each];
      return h("option", { value: key, selected: key === value }, title);
    }));
  }
  if (type === "area" || type === "json") {
    return h("textarea", { name, rows: type === "json" ? 3 : 5, spellcheck: "false", placeholder, value: value ?? "" });
  }
  if (type === "checkbox") return h("input", { type, name, checked: value === true });
  const step = type === "datetime-local" ? 1 : undefined; // seconds
  return h("input", { type, name, required, placeholder, min, step, value: value ?? "", autocomplete: type === "password" ? "new-password" : "off", spellcheck: "false" });
}

function readInput(field, input) {
  if (field.type === "checkbox") return input.checked;
  if (input.disabled) return field.type === "number" ? null : "";
  if (field.type === "number") return input.value === "" ? null : Number(input.value);
  if (field.type !== "json") return input.value;
  const text = input.value.trim();
  if (!text) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${field.label}: ${error.message}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Error(`${field.label} is a JSON object, as {"x-max-length": 1000}`);
  }
  return value;
}

function addKey(input, key) {
  let value = {};
  try {
    value = JSON.parse(input.value || "{}");
  } catch { /* What is no JSON yet is begun anew only by its writer. */ return; }
  const [name, start] = key.split("=");
  value[name] = start === undefined ? "" : JSON.parse(start);
  input.value = JSON.stringify(value, null, 1);
  input.focus();
}

// preview(values): what would happen, which is shown before `run` can be asked for. total: of how many `run` tells by its
// second argument that one is done.
export function formDialog(title, fields, { submit = "Save", run, note, preview, isDanger, total = 1 }) {
  const made = makeFields(fields);
  const [progress, advance, begin] = progressOf(total);
  const content = h("div", { class: "fields" }, note ? h("p", {}, note) : null, made.labels, progress);
  return open(title, content, {
    title: submit, run: () => { begin(); return run(made.read(), advance); }, preview: preview && (() => preview(made.read())),
  }, { isDanger });
}

function progressOf(total) {
  const progress = h("progress", { max: total, value: 0, hidden: true });
  return [progress, () => { progress.hidden = false; progress.value += 1; }, () => { progress.value = 0; }];
}

// What cannot be undone asks for the name.
export function confirmName(title, text, name, submit, run) {
  const input = h("input", { type: "text", name: "confirm", autocomplete: "off", spellcheck: "false", "aria-label": `type ${name}` });
  const content = h("div", { class: "fields" }, h("p", {}, text),
    h("p", {}, "Type ", h("code", { class: "name" }, name), " to go on."), h("label", {}, input));
  return open(title, content, { title: submit, run, isReady: () => input.value === name }, { isDanger: true });
}

// Before something is done to many: what would happen to each, and to how many; the number is typed.
export function confirmMany(title, titles, rows, text, submit, run) {
  const input = h("input", { type: "text", name: "confirm", inputmode: "numeric", autocomplete: "off", "aria-label": "how many" });
  const [progress, advance, begin] = progressOf(rows.length);
  const content = h("div", { class: "fields" }, h("p", {}, text), preview(titles, rows),
    h("p", {}, "Type ", h("code", { class: "name" }, rows.length), " to go on."), h("label", {}, input), progress);
  return open(title, content, {
    title: submit, run: () => { begin(); return run(advance); }, isReady: () => input.value.trim() === String(rows.length),
  }, { isDanger: true });
}

const MOST_PREVIEWED = 12;

// What would happen to each of many: the first ones, and how many more there are.
export function preview(titles, rows) {
  const more = rows.length - MOST_PREVIEWED;
  return h("div", {}, rows.length ? lines(titles, rows.slice(0, MOST_PREVIEWED)) : null, more > 0 ? h("p", { class: "quiet" }, `and ${more} more`) : null);
}

export function sayDialog(title, ...content) {
  const button = h("button", { type: "submit", class: "primary" }, "Close");
  const dialog = h("dialog", { "aria-label": title },
    h("form", { method: "dialog" }, h("h2", {}, title), ...content, h("footer", {}, button)));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// A note in the corner, for what has been done and for what has failed.
export function note(text, kind = "done") {
  let shelf = document.querySelector("#notes");
  if (!shelf) document.body.append(shelf = h("div", { id: "notes", role: "status", "aria-live": "polite" }));
  const element = h("p", { class: kind }, text);
  shelf.append(element);
  setTimeout(() => element.remove(), kind === "done" ? 4000 : 10000);
}

// Runs what a button does, and says what came of it.
export async function attempt(done, run) {
  try {
    const result = await run();
    if (done) note(done);
    return result ?? true;
  } catch (error) {
    note(error.message, "problem");
    return null;
  }
}

// A button that does one thing at a time, however often it is pressed meanwhile. run: may return the button for what is to be
// done next, which has the focus then if this one had it.
export function onceButton(title, run, attributes = {}) {
  const button = h("button", { type: "button", ...attributes, onclick: async () => {
    const hadFocus = document.activeElement === button;
    button.disabled = true;
    const next = await attempt("", run);
    button.disabled = false;
    if (hadFocus) (next instanceof Node ? next : button).focus({ preventScroll: true });
  } }, title);
  return button;
}

// isInAddress: what was asked stands there, and `refresh` asks it again for who comes by such an address.
export function inlineForm(title, fields, submit, run, { isInAddress = false } = {}) {
  const made = makeFields(fields);
  const present = () => JSON.stringify([...made.inputs.keys()].map((name) => here().query[name] ?? ""));
  let asked = JSON.stringify([...made.inputs.keys()].map(() => ""));
  const output = h("div", { class: "output" });
  const button = h("button", { type: "submit" }, submit);
  const form = h("form", { class: "inline" }, title ? h("h3", {}, title) : null,
    h("div", { class: "fields" }, made.labels), h("footer", {}, button), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const giveBack = keepFocus(button);
    button.disabled = true;
    output.replaceChildren();
    if (isInAddress) {
      setQuery(Object.fromEntries([...made.inputs].map(([name, [, input]]) => [name, input.disabled ? null : input.value || null])), { isStep: false });
      asked = present();
    }
    try {
      append(output, [await run(made.read())]);
    } catch (error) {
      output.append(h("p", { class: "problem", role: "alert" }, error.message));
    } finally {
      button.disabled = false;
      giveBack();
    }
  });
  form.refresh = () => {
    if (asked === present()) return;
    for (const [name, [, input]] of made.inputs) if (name in here().query) input.value = here().query[name];
    made.fill();
    form.requestSubmit();
  };
  return form;
}
