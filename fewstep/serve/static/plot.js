// The plot of the curves tab: axes, the true curve, every model's band and curves, and the points on top.

import { html, svg } from "./dom.js";
import { band, linear, path } from "./scale.js";

const RING = 11; // radius of the ring around a chosen point
const MARGIN = { top: RING + 3, right: RING + 3, bottom: 30, left: 38 }; // a point at the edge has a whole ring

export class Plot {
  constructor(host, { label, describedBy }) {
    this.host = host;
    this.layers = {};
    const names = ["grid", "bands", "truth", "before", "after", "points", "cursor"];
    for (const name of names) this.layers[name] = svg("g", { class: `layer-${name}` });
    this.clip = svg("rect");
    this.root = svg(
      "svg",
      { class: "plot-svg", role: "application", tabindex: "0", "aria-label": label, "aria-describedby": describedBy },
      svg("clipPath", { id: "plot-clip" }, this.clip),
      this.layers.grid,
      svg("g", { "clip-path": "url(#plot-clip)" }, ...["bands", "truth", "before", "after"].map((name) => this.layers[name])),
      this.layers.points,
      this.layers.cursor,
    );
    this.invitation = html("p", { class: "invitation", "aria-hidden": "true" }, "Put a point anywhere");
    host.append(this.root, this.invitation);
    this.range = { x: [-5, 5], y: [-5, 5] };
    this.lines = new Map();
    this.redraw = () => {};
    new ResizeObserver(() => this.resize()).observe(host);
    this.resize();
  }

  setRange(x, y) {
    this.range = { x, y };
    this.resize();
  }

  resize() {
    const width = Math.max(240, this.host.clientWidth);
    const height = this.host.clientHeight || 300;
    const { top, right, bottom, left } = MARGIN;
    this.size = { width, height };
    this.x = linear(this.range.x, [left, width - right]);
    this.y = linear(this.range.y, [height - bottom, top]);
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const [name, value] of Object.entries({ x: left, y: top, width: width - left - right, height: height - top - bottom })) {
      this.clip.setAttribute(name, value);
    }
    this.#axes();
    this.redraw();
  }

  #axes() {
    const { width, height } = this.size;
    const { top, right, bottom, left } = MARGIN;
    const parts = [svg("rect", { class: "field", x: left, y: top, width: width - left - right, height: height - top - bottom })];
    const [across, up] = [this.x.ticks(width < 500 ? 5 : 10), this.y.ticks(height < 360 ? 5 : 9)];
    for (const tick of across) {
      parts.push(svg("line", { class: tick ? "gridline" : "gridline zero", x1: this.x(tick), x2: this.x(tick), y1: top, y2: height - bottom }));
      parts.push(svg("text", { class: "tick-label", x: this.x(tick), y: height - bottom + 18, "text-anchor": "middle" }, label(tick, across)));
    }
    for (const tick of up) {
      parts.push(svg("line", { class: tick ? "gridline" : "gridline zero", x1: left, x2: width - right, y1: this.y(tick), y2: this.y(tick) }));
      parts.push(svg("text", { class: "tick-label", x: left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, label(tick, up)));
    }
    this.layers.grid.replaceChildren(...parts);
  }

  /** Shows, or hides, the words that stand on an empty plot. */
  invite(empty) {
    this.invitation.classList.toggle("gone", !empty);
  }

  /** Draws the true curve, or none. */
  drawTruth(truth) {
    const made = truth ? [svg("path", { class: "truth", d: path(truth.x.map(this.x), truth.y.map(this.y)) })] : [];
    this.layers.truth.replaceChildren(...made);
  }

  /** Draws a model: `y` and perhaps `low` and `high` at `x`, faint where they are `stale`, and `before`. */
  drawModel(key, look, { x, y, low, high, before, stale }) {
    let line = this.lines.get(key);
    if (!line) {
      line = {};
      for (const [name, layer] of [["band", "bands"], ["before", "before"], ["after", "after"]]) {
        line[name] = svg("path", { class: `${name} ${look}`, "data-model": key });
        this.layers[layer].append(line[name]);
      }
      this.lines.set(key, line);
    }
    const xs = x?.map(this.x);
    for (const part of [line.after, line.band]) part.classList.toggle("stale", Boolean(stale && y));
    line.after.setAttribute("d", y ? path(xs, y.map(this.y)) : "");
    line.before.setAttribute("d", before ? path(xs, before.map(this.y)) : "");
    line.band.setAttribute("d", low ? band(xs, low.map(this.y), high.map(this.y)) : "");
  }

  /** Takes all models off, before others are drawn. */
  forgetModels() {
    this.lines.clear();
    for (const name of ["bands", "before", "after"]) this.layers[name].replaceChildren();
  }

  drawPoints(points, selected) {
    const made = points.map(({ id, x, y }) =>
      svg(
        "g",
        { class: id === selected ? "point selected" : "point", "data-point": id, transform: `translate(${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)})` },
        svg("circle", { class: "reach", r: 18 }),
        svg("circle", { class: "ring", r: RING }),
        svg("circle", { class: "dot", r: 6 }),
      ),
    );
    this.layers.points.replaceChildren(...made);
  }

  /** Draws the cross of the keyboard, or none. */
  drawCursor(cursor) {
    if (!cursor) {
      this.layers.cursor.replaceChildren();
      return;
    }
    const { width, height } = this.size;
    const [x, y] = [this.x(cursor.x), this.y(cursor.y)];
    this.layers.cursor.replaceChildren(
      svg("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: height - MARGIN.bottom }),
      svg("line", { class: "cross", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }),
      svg("circle", { class: "aim", cx: x, cy: y, r: 8 }),
    );
  }

  /** Where in the plot's own units a pointer is, kept within its range. */
  at(event) {
    const box = this.root.getBoundingClientRect();
    const keep = (value, [low, high]) => Math.min(high, Math.max(low, value));
    return {
      x: keep(this.x.back(((event.clientX - box.left) / box.width) * this.size.width), this.range.x),
      y: keep(this.y.back(((event.clientY - box.top) / box.height) * this.size.height), this.range.y),
    };
  }
}

/** A tick with as many decimals as the finest of all needs. */
function label(tick, ticks) {
  const decimals = Math.max(...ticks.map((one) => (String(one).split(".")[1] ?? "").length));
  return tick.toFixed(decimals).replace("-", "−");
}
