// A drawing pad: strokes by pointer or keyboard, or a picture; given away as a small PNG, dark ink on white paper.

import { html } from "./dom.js";

const PIXELS = 105; // height and width of Omniglot's drawings
const INK = 2.6; // and the width of their lines
const PEN = 0.04; // how far a key moves the pen, of the pad's width

export class Pad {
  #strokes = [];
  #picture = null; // an image that was loaded, in place of strokes
  #source = null; // its text, where the service sent it: it goes back as it came
  #pen = null; // where the keyboard's pen is, and whether it is down

  /** `changed` is called after every change; `name` is what a screen reader hears. */
  constructor(name, changed, describedBy) {
    this.name = name;
    this.changed = changed;
    this.canvas = html("canvas", { class: "pad", tabindex: "0", role: "application", "aria-describedby": describedBy, "aria-roledescription": "drawing pad" });
    this.#withPointer();
    this.#withKeys();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.#update();
  }

  get empty() {
    return !this.#picture && this.#strokes.length === 0;
  }

  clear() {
    this.#strokes = [];
    this.#picture = null;
    this.#update();
  }

  undo() {
    if (this.#picture) this.#picture = null;
    else this.#strokes.pop();
    this.#update();
  }

  /** Puts strokes on the pad, each a list of [x, y] from 0 to 1. */
  setStrokes(strokes) {
    this.#picture = null;
    this.#strokes = strokes;
    this.#update();
  }

  /** Puts a picture on the pad: a file, or the text of a PNG as the service sends it. */
  async setPicture(source) {
    const sent = typeof source === "string";
    this.#picture = await createImageBitmap(sent ? toBlob(source) : source);
    this.#source = sent ? source : null;
    this.#strokes = [];
    this.#update();
  }

  /** The drawing as a data URL. */
  png() {
    if (this.#picture && this.#source) return asUrl(this.#source);
    const canvas = html("canvas", { width: PIXELS, height: PIXELS });
    const brush = canvas.getContext("2d");
    brush.fillStyle = "#fff";
    brush.fillRect(0, 0, PIXELS, PIXELS);
    this.#paint(brush, PIXELS, INK / PIXELS);
    return canvas.toDataURL("image/png");
  }

  #paint(brush, size, width) {
    if (this.#picture) {
      const { width: w, height: h } = this.#picture;
      const edge = Math.min(w, h);
      brush.imageSmoothingQuality = "high";
      brush.drawImage(this.#picture, (w - edge) / 2, (h - edge) / 2, edge, edge, 0, 0, size, size);
      return;
    }
    Object.assign(brush, { lineWidth: width * size, lineCap: "round", lineJoin: "round", strokeStyle: "#10161c" });
    for (const stroke of this.#strokes) {
      brush.beginPath();
      const [[x, y], ...rest] = stroke;
      brush.moveTo(x * size, y * size);
      for (const [u, v] of rest.length ? rest : [[x + 1e-4, y]]) brush.lineTo(u * size, v * size);
      brush.stroke();
    }
  }

  /** Draws on the screen, in the screen's own pixels. */
  draw(changes = false) {
    const size = Math.round(this.canvas.clientWidth * devicePixelRatio) || PIXELS;
    if (this.canvas.width !== size) this.canvas.width = this.canvas.height = size;
    const brush = this.canvas.getContext("2d");
    brush.clearRect(0, 0, size, size);
    if (this.#picture) {
      brush.fillStyle = getComputedStyle(this.canvas).backgroundColor;
      brush.fillRect(0, 0, size, size);
      brush.globalCompositeOperation = "multiply"; // white becomes the pad's own paper
    }
    this.#paint(brush, size, (1.15 * INK) / PIXELS);
    brush.globalCompositeOperation = "source-over";
    if (this.#pen) {
      brush.beginPath();
      brush.arc(this.#pen.x * size, this.#pen.y * size, 0.035 * size, 0, 7);
      brush.lineWidth = 0.012 * size;
      brush.strokeStyle = brush.fillStyle = "#9a3a00";
      brush.stroke();
      if (this.#pen.down) brush.fill();
    }
    if (changes) this.changed();
  }

  #update() {
    const state = this.#picture ? "a picture" : this.#strokes.length ? `${this.#strokes.length} strokes` : "empty";
    this.canvas.setAttribute("aria-label", `${this.name}, ${state}`);
    this.canvas.classList.toggle("blank", this.empty);
    this.draw(true);
  }

  #begin(x, y) {
    this.#picture = null;
    this.#strokes.push([[x, y]]);
    this.#update();
  }

  #go(x, y) {
    this.#strokes.at(-1).push([x, y]);
    this.draw(true);
  }

  #withPointer() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    let drawing = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || drawing !== null) return;
      drawing = event.pointerId;
      canvas.setPointerCapture(drawing);
      this.#pen = null;
      this.#begin(...at(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerId !== drawing) return;
      const all = event.getCoalescedEvents?.() ?? [];
      for (const one of all.length ? all : [event]) this.#go(...at(one));
    });
    const end = (event) => { if (event.pointerId === drawing) drawing = null; };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }

  #withKeys() {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const keep = (value) => Math.min(0.96, Math.max(0.04, value));
    this.canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const way = ways[event.key];
      const known = way || [" ", "Backspace", "Delete", "Escape"].includes(event.key);
      if (!known) return;
      event.preventDefault();
      this.#pen ??= { x: 0.5, y: 0.5, down: false };
      if (way) {
        this.#pen.x = keep(this.#pen.x + PEN * way[0]);
        this.#pen.y = keep(this.#pen.y + PEN * way[1]);
        if (this.#pen.down) this.#go(this.#pen.x, this.#pen.y);
        else this.draw();
      } else if (event.key === " ") {
        this.#pen.down = !this.#pen.down;
        if (this.#pen.down) this.#begin(this.#pen.x, this.#pen.y);
        else this.draw();
      } else {
        this.#pen.down = false;
        if (event.key === "Backspace") this.undo();
        else if (event.key === "Delete") this.clear();
        else this.draw();
      }
    });
    this.canvas.addEventListener("blur", () => {
      this.#pen = null;
      this.draw();
    });
  }
}

/** The text of a PNG as a data URL. */
export const asUrl = (text) => (text.startsWith("data:") ? text : `data:image/png;base64,${text}`);

/** The text of a PNG, with or without the head of a data URL, as bytes. */
function toBlob(text) {
  const bytes = Uint8Array.from(atob(text.slice(text.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}
