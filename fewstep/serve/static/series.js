// The look of a line: its color and dash, which are those of its rule in every tab, and a short piece of it for legends.

import { svg } from "./dom.js";

const COLORS = 6;
const DASHES = 6;

/** Color and dash of each method; style.css has the colors, parts.css the dashes. No two methods share both. */
export const LOOKS = {
  maml: [0, 0], tnet: [1, 1], mtnet: [2, 2], meta_sgd: [3, 3], mnet: [4, 4], anil: [5, 5],
  boil: [3, 0], mnet_full: [4, 1], mtnet_full: [2, 4], mamlpp: [3, 1], alfa: [5, 2], learned_optimizer: [4, 2],
  meta_lstm: [3, 5],
  prototypes: [0, 1], matching: [1, 2], neighbor: [3, 4], finetune: [5, 0], embedding: [4, 3], spectral: [2, 5],
  ridge: [1, 0], gaussian: [0, 2], mixed: [5, 1], snail: [0, 3], metanet: [1, 4], recurrent: [5, 3],
  metric: [0, 4], logistic: [0, 5],
  np: [2, 1], anp: [1, 3], trees: [2, 0], shifted: [2, 3], pooled: [4, 0],
};

const looks = new Map(); // by rule and name: whoever has got one keeps it, in every tab
const asClass = ([color, dash]) => `color-${color} dash-${dash}`;
const reserved = new Set(Object.values(LOOKS).map(asClass));

/**
 * The classes that draw a run or a model: its rule's look. A second run of the same rule has the color too, with another
 * dash; so has a rule made of several links that of the first.
 */
export function lookOf({ name, rule }) {
  const key = `${rule} ${name}`;
  if (!looks.has(key)) looks.set(key, choose(rule));
  return looks.get(key);
}

function choose(rule) {
  const taken = new Set(looks.values());
  const own = LOOKS[rule] && asClass(LOOKS[rule]);
  if (own && !taken.has(own)) return own;
  const [color] = LOOKS[rule] ?? LOOKS[rule.split("+")[0]] ?? [sumOf(rule) % COLORS];
  const free = Array.from({ length: DASHES }, (_, dash) => asClass([color, dash])).filter((look) => !taken.has(look));
  return free.find((look) => !reserved.has(look)) ?? free[0] ?? own ?? asClass([color, 0]);
}

const sumOf = (text) => [...text].reduce((sum, letter) => sum + letter.codePointAt(0), 0);

/** A piece of the line of a look, or of the lines `before` or `truth`. */
export const swatch = (look) =>
  svg("svg", { class: "swatch", viewBox: "0 0 34 10", "aria-hidden": "true", focusable: "false" },
    svg("path", { class: ["before", "truth"].includes(look) ? `${look} key-line` : `after ${look}`, d: "M1 5H33" }));
