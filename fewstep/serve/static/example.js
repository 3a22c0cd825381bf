// A pad with its letter and its buttons.

import { html } from "./dom.js";
import { iconButton } from "./icons.js";
import { Pad } from "./pad.js";

const LARGEST = 20_000_000; // bytes of a picture that is opened

/**
 * `again` is a function that puts another drawing of the same character on a pad, where one is known; `random(example)`
 * is what the button does, and `trouble(error)` shows what went wrong.
 */
export class Example {
  constructor(name, letter, { changed, random, trouble, randomLabel }) {
    this.letter = letter;
    this.again = null;
    this.pad = new Pad(name, changed, "pad-help");
    const file = html("input", { type: "file", accept: "image/*", hidden: true, tabindex: "-1", "aria-hidden": "true" });
    file.addEventListener("change", async () => {
      const [picture] = file.files;
      file.value = "";
      if (picture) await this.open(picture).catch(trouble);
    });
    const of = name[0].toLowerCase() + name.slice(1);
    const undo = () => { this.again = null; this.pad.undo(); };
    this.element = html("div", { class: "example" },
      html("div", { class: "paper" }, letter ? html("span", { class: "letter", "aria-hidden": "true" }, letter) : null, this.pad.canvas),
      html("div", { class: "tools" },
        iconButton("random", `${randomLabel}: ${of}`, () => random(this).catch(trouble)),
        iconButton("open", `Open an image: ${of}`, () => file.click()),
        iconButton("undo", `Take the last stroke back: ${of}`, undo),
        iconButton("clear", `Clear: ${of}`, () => this.clear()),
        file));
  }

  clear() {
    this.again = null;
    this.pad.clear();
  }

  async open(file) {
    if (file.size > LARGEST) throw new Error(`${file.name} has more than 20 MB. Choose a smaller picture.`);
    this.again = null;
    await this.pad.setPicture(file).catch(() => {
      throw new Error(`${file.name} is not a picture that the browser can read. Choose a PNG, JPEG or WebP.`);
    });
  }
}
