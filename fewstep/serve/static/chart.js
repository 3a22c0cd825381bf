// Lines against the step, with a reading at the pointer or at the keyboard's cursor.

import { html, number, svg, whole } from "./dom.js";
import { linear, logarithmic, path } from "./scale.js";
import { swatch } from "./series.js";

const MARGIN = { top: 12, right: 26, bottom: 42, left: 52 };
const WINDOWS = 25; // a smooth line is the mean over about this part of all rows

export class Chart {
  constructor(host, say) {
    this.host = host;
    this.say = say;
    this.lines = [];
    this.steps = []; // at which some line has a value, in order
    this.options = { log: true, smooth: true, label: "" };
    this.at = null; // the step that is read
    this.root = svg("svg", { class: "chart-svg", role: "application", tabindex: "0", "aria-label": "Chart of training runs", "aria-describedby": "chart-help" });
    this.reading = html("div", { class: "reading", hidden: true });
    host.append(this.root, this.reading);
    new ResizeObserver(() => this.#draw()).observe(host);
    this.root.addEventListener("pointermove", (event) => this.#point(event));
    this.root.addEventListener("pointerleave", () => this.#read(null));
    this.root.addEventListener("blur", () => this.#read(null));
    this.root.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `lines` are `{ name, look, x, y }`; the options say `log`, `smooth` and the `label` of the values. */
  draw(lines, options) {
    this.lines = lines.map((line) => ({ ...line, shown: options.smooth ? smoothed(line.y) : line.y }));
    this.steps = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    this.options = options;
    this.#draw();
  }

  #scales() {
    const width = Math.max(240, this.host.clientWidth);
    const height = this.host.clientHeight || 320;
    this.size = { width, height };
    const positive = (value) => !this.options.log || value > 0;
    const values = this.lines.flatMap((line) => [...line.y, ...line.shown]).filter(positive);
    const last = Math.max(1, ...this.lines.map((line) => line.x.at(-1) ?? 0));
    let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : this.options.log ? [0.1, 10] : [0, 1];
    if (this.options.log) [low, high] = [low / 1.15, high * 1.15];
    else [low, high] = [Math.min(0, low), high + 0.05 * (high - Math.min(0, low) || 1)];
    this.x = linear([0, last], [MARGIN.left, width - MARGIN.right]);
    this.y = (this.options.log ? logarithmic : linear)([low, high], [height - MARGIN.bottom, MARGIN.top]);
  }

  #draw() {
    this.#scales();
    const { width, height } = this.size;
    const { top, right, bottom, left } = MARGIN;
    const parts = [];
    for (const tick of this.y.ticks(6)) {
      parts.push(svg("line", { class: "gridline", x1: left, x2: width - right, y1: this.y(tick), y2: this.y(tick) }));
      parts.push(svg("text", { class: "tick-label", x: left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    for (const tick of this.x.ticks(width < 500 ? 4 : 8)) {
      parts.push(svg("text", { class: "tick-label", x: this.x(tick), y: height - bottom + 18, "text-anchor": "middle" }, whole(tick)));
    }
    parts.push(svg("line", { class: "gridline zero", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
    parts.push(svg("text", { class: "axis-label", x: width - right, y: height - 6, "text-anchor": "end" }, `outer step; ${this.options.label}`));
    for (const { name, look, x, y, shown } of this.lines) {
      const xs = x.map(this.x);
      if (this.options.smooth) parts.push(svg("path", { class: `raw ${look}`, "data-run": name, d: path(xs, y.map(this.y)) }));
      parts.push(svg("path", { class: `after ${look}`, "data-run": name, "data-rows": x.length, d: path(xs, shown.map(this.y)) }));
      if (!this.options.smooth && x.length <= 40) {
        parts.push(...xs.map((at, n) => svg("circle", { class: `row ${look}`, cx: at, cy: this.y(y[n]), r: 2.5 })));
      }
    }
    this.cross = svg("g", { class: "reading-cross" });
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.replaceChildren(...parts, this.cross);
    this.#read(this.at);
  }

  #point(event) {
    const box = this.root.getBoundingClientRect();
    this.#read(this.x.back(((event.clientX - box.left) / box.width) * this.size.width));
  }

  #key(event) {
    const { steps } = this;
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || !steps.length) return;
    event.preventDefault();
    const now = this.at == null ? 0 : steps.findLastIndex((step) => step <= this.at);
    this.#read(steps[Math.max(0, Math.min(steps.length - 1, now + by))]);
    this.say(`Step ${this.at}: ${this.#values(this.at).map(({ name, value }) => `${name} ${number(value)}`).join(", ")}`);
  }

  /** The newest value of each line at a step; a line that begins later, or has ended, has none there. */
  #values(at) {
    return this.lines.map(({ name, look, x, shown }) => {
      const n = x.findLastIndex((step) => step <= at);
      return n < 0 || x.at(-1) < at ? null : { name, look, step: x[n], value: shown[n] };
    }).filter(Boolean);
  }

  #read(at) {
    this.at = at;
    const step = at == null ? undefined : this.steps.findLast((one) => one <= at + 1e-9);
    const found = step === undefined ? [] : this.#values(step);
    this.reading.hidden = !found.length;
    if (!found.length) return void this.cross.replaceChildren();
    const px = this.x(step);
    this.cross.replaceChildren(
      svg("line", { class: "cross", x1: px, x2: px, y1: MARGIN.top, y2: this.size.height - MARGIN.bottom }),
      ...found.map((one) => svg("circle", { class: `row ${one.look}`, cx: this.x(one.step), cy: this.y(one.value), r: 4 })));
    this.reading.replaceChildren(html("b", {}, `step ${whole(step)}`),
      ...found.map((one) => html("span", {}, swatch(one.look), one.name, html("b", { class: "figure" }, number(one.value)))));
    this.reading.classList.toggle("left", px > this.size.width / 2);
    return undefined;
  }
}

const short = (tick) => (tick >= 1000 || Number.isInteger(tick) ? whole(tick) : String(Number(tick.toPrecision(2))));

/** The mean over a window around each row. */
function smoothed(values) {
  const half = Math.ceil(values.length / WINDOWS / 2);
  return values.map((_, n) => {
    const near = values.slice(Math.max(0, n - half), n + half + 1);
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}
