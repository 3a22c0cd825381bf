// Elements made in one line, and numbers as people read them.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** An HTML element: attributes by name, listeners as `onclick`, then children. */
export const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element, in the same manner. */
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** The element of an id that the page is known to have. */
export const byId = (id) => document.getElementById(id);

/** Three figures, without a long tail of zeros. */
export function number(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

/** A share of 1 as a percentage. */
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}%`;

/** A whole number with its thousands apart. */
export const whole = (value) => Math.round(value).toLocaleString("en");

/** The name of a rule as the literature writes it. */
export function ruleName(rule) {
  const names = {
    maml: "MAML", fomaml: "FOMAML", reptile: "Reptile", meta_sgd: "Meta-SGD", anil: "ANIL", boil: "BOIL",
    tnet: "T-net", mnet: "M-net", mtnet: "MT-net", mnet_full: "M-net (full)", mtnet_full: "MT-net (full)",
    mamlpp: "MAML++", alfa: "ALFA", learned_optimizer: "learned optimizer", meta_lstm: "Meta-LSTM",
  };
  return rule.split("+").map((part) => names[part] ?? part).join(" + ");
}

/** Says something to a screen reader, once the person has paused. */
export function announcer(element, wait = 700) {
  let timer = 0;
  return (text) => {
    clearTimeout(timer);
    timer = setTimeout(() => { element.textContent = text; }, wait);
  };
}

/** Whether the person asked for less movement. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
