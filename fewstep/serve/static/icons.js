// Small signs for buttons; their names are the buttons' labels.

import { html, svg } from "./dom.js";

const LINES = {
  clear: ["M6 6 18 18", "M18 6 6 18"],
  random: ["M4 7h3.5c5 0 4.5 10 9.5 10h3", "M4 17h3.5c5 0 4.5-10 9.5-10h3", "M17.5 4 20.5 7l-3 3", "M17.5 14l3 3-3 3"],
  open: ["M4 6.5h5l2 2.5h9v9.5H4Z"],
  undo: ["M9 5 4.5 9.5 9 14", "M4.5 9.5H14a5 5 0 0 1 0 10h-3"],
};

/** A button with a sign on it. */
export const iconButton = (sign, label, onclick) =>
  html("button", { class: "icon", type: "button", "aria-label": label, title: label, onclick },
    svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, ...LINES[sign].map((d) => svg("path", { d }))));
