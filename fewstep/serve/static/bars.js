// Probabilities as bars, one for each class.

import { html, percent } from "./dom.js";

export class Bars {
  constructor(list) {
    this.list = list;
    this.rows = new Map();
  }

  clear() {
    this.rows.clear();
    this.list.replaceChildren();
  }

  /** One row for each class: `{ letter, image }`, the image where there is one. */
  setClasses(classes) {
    this.clear();
    for (const { letter, image } of classes) {
      const fill = html("span", { class: "fill" });
      const figure = html("span", { class: "figure" }, "–");
      const row = html("li", { "data-letter": letter },
        image ? html("img", { src: image, alt: "", width: 32, height: 32 }) : null,
        html("span", { class: "letter" }, letter), html("span", { class: "rail" }, fill), figure);
      this.rows.set(letter, { row, fill, figure });
      this.list.append(row);
    }
  }

  /** Shows probabilities by letter, or none; the best does not stand out where it is `none` of these. */
  show(found, none = false) {
    const most = found ? Math.max(...Object.values(found)) : null;
    for (const [letter, { row, fill, figure }] of this.rows) {
      const share = found?.[letter] ?? 0;
      fill.style.width = `${100 * share}%`;
      figure.textContent = found ? percent(share) : "–";
      row.classList.toggle("best", found != null && !none && share === most);
    }
  }
}
