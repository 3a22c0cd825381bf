// A label with its examples, one per line.

import { html } from "./dom.js";
import { iconButton } from "./icons.js";

const LONGEST = 60; // characters of a name, which stands beside a bar

export class LabelGroup {
  #number = 0;

  /** `changed()` is called when a name or an example is edited, `removed()` by its button. */
  constructor({ changed, removed }) {
    this.name = html("input", { type: "text", class: "label-name", maxlength: LONGEST, autocomplete: "off", oninput: changed });
    this.lines = html("textarea", { rows: 4, spellcheck: "false", oninput: changed });
    this.remove = iconButton("clear", "Remove", removed);
    this.element = html("div", { class: "label-group", role: "group" },
      html("div", { class: "label-head" }, this.name, this.remove), this.lines);
  }

  setNumber(number, removable) {
    this.#number = number;
    this.element.setAttribute("aria-label", `Label ${number}`);
    this.name.placeholder = `Label ${number}`;
    this.name.setAttribute("aria-label", `Name of label ${number}`);
    this.lines.placeholder = "One example per line";
    this.lines.setAttribute("aria-label", `Examples of label ${number}, one per line`);
    this.remove.setAttribute("aria-label", `Remove label ${number}`);
    this.remove.title = `Remove label ${number}`;
    this.remove.hidden = !removable;
  }

  fill(name, texts) {
    this.name.value = name;
    this.lines.value = texts.join("\n");
  }

  /** Its name, or what stands for one. */
  get label() {
    return this.name.value.trim() || `Label ${this.#number}`;
  }

  /** Its examples without empty lines. */
  get texts() {
    return this.lines.value.split("\n").map((line) => line.trim()).filter(Boolean);
  }
}
