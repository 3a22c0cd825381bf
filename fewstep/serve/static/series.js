// The sign of a series: its colour and dash, and a short line of them for legends and tables.

import { svg } from "./dom.js";

const COUNT = 6; // colours and dashes there are
const OWN = { maml: 0, tnet: 1, mtnet: 2, meta_sgd: 3, mnet: 4 }; // so that a rule looks the same everywhere

/** The series of a rule: its own if it is free, else the next that is, else one again. */
export function seriesFor(rule, taken) {
  const free = Array.from({ length: COUNT }, (_, n) => n).filter((n) => !taken.includes(n));
  const own = OWN[rule];
  return free.includes(own) ? own : free.filter((n) => own === undefined ? n > 2 : true)[0] ?? free[0] ?? taken.length % COUNT;
}

/** A number for a series, `before` or `truth`. */
export const swatch = (series) =>
  svg("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true", focusable: "false" },
    svg("path", { class: typeof series === "number" ? `after series-${series}` : `${series} key-line`, d: "M1 5H25" }));
