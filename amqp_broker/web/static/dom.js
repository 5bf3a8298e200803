// Elements. What is not an element becomes a text node: names come from clients, and one may be called <script>.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// Replaces what is in an element, but leaves alone what has not changed, so that nothing selected or focused is lost.
export function patch(element, ...children) {
  const fresh = append(document.createElement(element.tagName), children);
  const old = element.childNodes;
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, index) => {
    const present = old[index];
    if (!present) element.append(node);
    else if (!present.isEqualNode(node)) present.replaceWith(node);
  });
  while (old.length > wanted.length) element.lastChild.remove();
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}`.trim() }, text);
}

export function link(href, ...text) {
  return h("a", { href }, ...text);
}

// A table of what is at hand: texts and elements.
export function lines(titles, rows) {
  return h("div", { class: "frame" }, h("table", {}, h("thead", {}, h("tr", {}, titles.map((title) => h("th", {}, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}
