// <line-chart>: lines over time on a canvas. Pointing shows the values there, dragging zooms, a double click shows all.

import { h, patch } from "./dom.js";

const LEFT = 62, RIGHT = 8, TOP = 8, BOTTOM = 20, HEIGHT = 170;
const LEAST_ZOOM_PX = 6;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];

class LineChart extends HTMLElement {
  #canvas = h("canvas", { role: "img" });
  #legend = h("div", { class: "legend" });
  #title = h("h3");
  #when = h("span", { class: "when" });
  #back = h("button", { type: "button", class: "small", hidden: true, onclick: () => this.#zoomTo(null) }, "Whole");
  #hidden = new Set();
  #data = { times: [], series: [], format: String };
  #zoom = null;
  #pointer = null;
  #dragFrom = null;
  #observer = new ResizeObserver(() => this.draw());
  #scheme = matchMedia("(prefers-color-scheme: dark)");
  #redraw = () => this.draw();

  connectedCallback() {
    if (!this.firstChild) {
      this.append(h("header", {}, this.#title, this.#when, this.#back), this.#canvas, this.#legend);
      this.#listen();
    }
    this.#observer.observe(this);
    this.#scheme.addEventListener("change", this.#redraw);
    document.addEventListener("theme", this.#redraw);
  }

  disconnectedCallback() {
    this.#observer.disconnect();
    this.#scheme.removeEventListener("change", this.#redraw);
    document.removeEventListener("theme", this.#redraw);
  }

  // data: {title, times: [ms], series: [{name, values}], format, from, until}
  set data(data) {
    this.#data = { format: String, ...data };
    this.#title.textContent = data.title;
    this.#canvas.setAttribute("aria-label", `${data.title}, over time`);
    this.draw();
  }

  #listen() {
    const canvas = this.#canvas;
    canvas.addEventListener("pointermove", (event) => { this.#pointer = event.offsetX; this.draw(); });
    canvas.addEventListener("pointerleave", () => { this.#pointer = null; this.draw(); });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#dragFrom = event.offsetX;
    });
    canvas.addEventListener("pointerup", (event) => {
      const from = this.#dragFrom;
      this.#dragFrom = null;
      if (from !== null && Math.abs(event.offsetX - from) >= LEAST_ZOOM_PX) {
        const ends = [from, event.offsetX].sort((a, b) => a - b).map((x) => this.#timeAt(x));
        this.#zoomTo(ends);
      } else this.draw();
    });
    canvas.addEventListener("dblclick", () => this.#zoomTo(null));
  }

  #zoomTo(ends) {
    this.#zoom = ends;
    this.#back.hidden = ends === null;
    this.draw();
  }

  #range() {
    if (this.#zoom) return this.#zoom;
    const { times, from, until } = this.#data;
    return [from ?? times[0] ?? 0, until ?? times.at(-1) ?? 1];
  }

  #timeAt(x) {
    const [from, until] = this.#range();
    return from + (x - LEFT) / Math.max(1, this.#canvas.clientWidth - LEFT - RIGHT) * (until - from);
  }

  draw() {
    const width = this.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    const canvas = this.#canvas;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== HEIGHT * scale) canvas.height = HEIGHT * scale;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const { times, series } = this.#data;
    const [from, until] = this.#range();
    const seen = times.map((time, index) => index).filter((index) => times[index] >= from && times[index] <= until);
    const shown = series.filter((each) => !this.#hidden.has(each.name));
    const top = niceTop(Math.max(0, ...shown.flatMap((each) => seen.map((index) => each.values[index] ?? 0))));
    const x = (time) => LEFT + (time - from) / Math.max(1, until - from) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    const style = getComputedStyle(this);
    const quiet = getComputedStyle(this.#when).color;
    pen.font = `11px ${style.fontFamily}`;
    this.#drawAxes(pen, { x, y, top, from, until, width, quiet, line: style.borderTopColor });
    const nearest = this.#nearest(seen);
    this.#showLegend(nearest ?? seen.at(-1));
    const swatches = [...this.#legend.querySelectorAll("i")];
    series.forEach((each, number) => {
      if (this.#hidden.has(each.name)) return;
      pen.strokeStyle = pen.fillStyle = getComputedStyle(swatches[number]).color;
      drawLine(pen, seen.map((index) => [x(times[index]), each.values[index]]), y);
      if (nearest !== null) dot(pen, x(times[nearest]), y(each.values[nearest] ?? 0));
    });
    this.#drawPointer(pen, nearest === null ? null : x(times[nearest]), quiet, style.outlineColor);
    this.#when.textContent = nearest === null ? "" : new Date(times[nearest]).toLocaleTimeString();
  }

  #drawAxes(pen, { x, y, top, from, until, width, quiet, line }) {
    pen.fillStyle = quiet;
    pen.strokeStyle = line;
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const part of [0, 0.5, 1]) {
      const level = Math.round(y(top * part)) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, level);
      pen.lineTo(width - RIGHT, level);
      pen.stroke();
      pen.fillText(this.#data.format(top * part), LEFT - 6, level);
    }
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    const wanted = (until - from) / 1000 / Math.max(2, (width - LEFT) / 90);
    const step = (STEPS_S.find((each) => each >= wanted) ?? 28800) * 1000;
    const offset = new Date().getTimezoneOffset() * 60000;
    for (let tick = Math.ceil((from - offset) / step) * step + offset; tick <= until; tick += step) {
      const place = x(tick);
      if (place < LEFT + 18 || place > width - RIGHT - 18) continue;
      const options = { hour: "2-digit", minute: "2-digit", ...(step < 60000 ? { second: "2-digit" } : {}), hourCycle: "h23" };
      pen.fillText(new Date(tick).toLocaleTimeString([], options), place, HEIGHT - 5);
    }
  }

  #nearest(seen) {
    if (this.#pointer === null || !seen.length) return null;
    const time = this.#timeAt(this.#pointer);
    const { times } = this.#data;
    return seen.reduce((best, index) => Math.abs(times[index] - time) < Math.abs(times[best] - time) ? index : best);
  }

  #drawPointer(pen, place, quiet, shade) {
    if (this.#dragFrom !== null && this.#pointer !== null) {
      pen.globalAlpha = 0.15;
      pen.fillStyle = shade;
      pen.fillRect(Math.min(this.#dragFrom, this.#pointer), TOP, Math.abs(this.#pointer - this.#dragFrom), HEIGHT - TOP - BOTTOM);
      pen.globalAlpha = 1;
    }
    if (place === null) return;
    pen.strokeStyle = quiet;
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(place, TOP);
    pen.lineTo(place, HEIGHT - BOTTOM);
    pen.stroke();
    pen.setLineDash([]);
  }

  #showLegend(index) {
    const { series, format } = this.#data;
    patch(this.#legend, series.map((each, number) => h("button", {
      type: "button", class: "series", "data-name": each.name, "aria-pressed": String(!this.#hidden.has(each.name)),
      onclick: () => { this.#hidden.has(each.name) ? this.#hidden.delete(each.name) : this.#hidden.add(each.name); this.draw(); },
    }, h("i", { class: `s${number + 1}` }), each.name, h("b", {}, index === undefined ? "–" : format(each.values[index] ?? 0)))));
  }
}

function niceTop(most) {
  if (most <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 10].map((each) => each * size).find((each) => each >= most) ?? most;
}

function drawLine(pen, points, y) {
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.beginPath();
  let isDown = false;
  for (const [place, value] of points) {
    if (value === null || value === undefined) { isDown = false; continue; }
    if (isDown) pen.lineTo(place, y(value));
    else pen.moveTo(place, y(value));
    isDown = true;
  }
  pen.stroke();
  if (points.length === 1) dot(pen, points[0][0], y(points[0][1] ?? 0));
}

function dot(pen, x, y) {
  pen.beginPath();
  pen.arc(x, y, 2.5, 0, 7);
  pen.fill();
}

customElements.define("line-chart", LineChart);

export function chart() {
  return document.createElement("line-chart");
}
