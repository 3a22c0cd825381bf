// What moved inside a model: a cell for each unit, and a bar for each layer.

import { html, percent, svg } from "./dom.js";
import { swatch } from "./series.js";

const CELL = 10;

export class Strip {
  constructor(contestant) {
    this.contestant = contestant;
    this.rows = contestant.model.layers.map((layer) => row(layer));
    this.note = html("span", { class: "hint" });
    this.element = html("section", { class: `card strip ${contestant.look}`, "data-model": contestant.model.name },
      html("h4", {}, swatch(contestant.look), contestant.title, this.note),
      html("ul", {}, ...this.rows.map(({ element }) => element)));
  }

  /** Draws the newest answer; `most` is the largest way any layer of any model went. */
  draw(most) {
    const { answer, diverged, error, stale } = this.contestant;
    const layers = stale ? null : answer?.detail?.layers ?? null;
    const masked = layers?.some((layer) => layer.mask);
    this.note.textContent = error ? "no answer" : stale ? "waits for an answer" : diverged ? "diverged"
      : !layers ? "waits for points" : masked ? "" : "every unit may move";
    this.rows.forEach((one, n) => drawRow(one, layers?.[n] ?? null, most));
  }
}

function row({ name, units }) {
  const cells = Array.from({ length: units }, (_, n) =>
    svg("rect", { class: "unit", x: n * CELL + 1, y: 1, width: CELL - 2, height: CELL * 1.6 - 2, rx: 2 }));
  const bar = svg("rect", { class: "moved", x: 0, y: 0, width: 0, height: 6, rx: 3 });
  const figure = html("span", { class: "figure" });
  const said = html("span", { class: "unseen" });
  const element = html("li", {},
    html("span", { class: "layer-name" }, name),
    svg("svg", { class: "units", viewBox: `0 0 ${Math.max(units, 20) * CELL} ${CELL * 1.6}`, "aria-hidden": "true", preserveAspectRatio: "none" }, ...cells),
    svg("svg", { class: "way", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "rail", x: 0, y: 0, width: 100, height: 6, rx: 3 }), bar),
    figure, said);
  return { name, cells, bar, figure, said, element };
}

function drawRow({ name, cells, bar, figure, said }, layer, most) {
  const share = (n) => (layer ? layer.mask?.[n] ?? 1 : 0);
  cells.forEach((cell, n) => cell.setAttribute("fill-opacity", (0.1 + 0.9 * share(n)).toFixed(2)));
  bar.setAttribute("width", layer ? (100 * layer.moved) / most : 0);
  figure.textContent = layer ? percent(layer.moved) : "–";
  const open = cells.reduce((sum, _, n) => sum + share(n), 0);
  said.textContent = layer
    ? `Layer ${name}: about ${Math.round(open)} of ${cells.length} units may move; its weights moved by ${percent(layer.moved)}.`
    : `Layer ${name}: nothing has moved.`;
}
