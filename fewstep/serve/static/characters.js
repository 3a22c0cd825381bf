// The characters tab: one example of each, then a question, and the probabilities while it is drawn.

import * as api from "./api.js";
import { Bars } from "./bars.js";
import { announcer, byId, html, number, ruleName } from "./dom.js";
import { Example } from "./example.js";
import { asUrl } from "./pad.js";
import { byHand, someShapes } from "./shapes.js";
import { Patience, reporter } from "./waiting.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRST";
const LEAST = 2;
const GONE = [404, 410]; // the service has forgotten an adapter

/** Opens the tab: `models` as the service lists them, `trouble(error)` shows what went wrong. */
export function openCharacters(models, trouble) {
  const usable = models.filter((model) => model.kind === "images" && (model.image?.[2] ?? 1) === 1);
  byId("characters-none").hidden = usable.length > 0;
  byId("characters-body").hidden = usable.length === 0;
  if (usable.length) new Characters(usable, trouble);
}

class Characters {
  constructor(models, trouble) {
    this.models = models;
    this.trouble = trouble;
    this.say = announcer(byId("characters-said"), 900);
    this.bars = new Bars(byId("bars"));
    this.examples = [];
    this.questions = []; // of an episode: { image, letter }
    this.pool = []; // test characters not yet handed out
    this.adapter = null;
    this.stale = true; // the examples have changed since the model was adapted to them
    this.refresh = api.latest(() => this.#work());
    this.patience = new Patience(() => { this.#forget(); this.report(); });
    this.report = reporter(() => this.patience.late, (text) => { byId("verdict").textContent = text; });
    this.query = new Example("The question", "", {
      changed: () => this.refresh(), random: () => this.#another(), trouble, randomLabel: "Another drawing of one of the examples",
    });
    byId("query-pad").append(this.query.element);
    this.#controls();
    this.#choose(models[0]);
  }

  #controls() {
    const choice = byId("image-model");
    choice.append(...this.models.map((model, n) => html("option", { value: n }, `${model.name} (${ruleName(model.rule)})`)));
    byId("image-model-label").hidden = this.models.length < 2;
    choice.addEventListener("change", () => this.#choose(this.models[choice.value]));
    byId("ways").addEventListener("change", () => this.#setWays(Number(byId("ways").value)));
    byId("draw-episode").addEventListener("click", () => this.#episode().catch(this.trouble));
    byId("fill-shapes").addEventListener("click", () => this.#shapes());
    byId("clear-pads").addEventListener("click", () => this.#clear());
    byId("image-steps").addEventListener("input", () => this.#edited());
  }

  #choose(model) {
    this.model = model;
    this.adapter = null;
    this.pool = [];
    byId("ways").max = Math.min(LETTERS.length, model.limits?.ways ?? LETTERS.length);
    byId("image-steps").max = Math.min(20, model.limits?.steps ?? 20);
    byId("image-steps").value = model.inner_steps ?? 1;
    this.#setWays(this.examples.length || model.ways || 5);
  }

  #setWays(asked) {
    const ways = Math.max(LEAST, Math.min(Number(byId("ways").max), Math.round(asked) || 5));
    byId("ways").value = ways;
    while (this.examples.length > ways) this.examples.pop().element.remove();
    while (this.examples.length < ways) {
      const letter = LETTERS[this.examples.length];
      const example = new Example(`Example ${letter}`, letter, {
        changed: () => this.#edited(), random: (one) => this.#random(one), trouble: this.trouble, randomLabel: "A random character",
      });
      this.examples.push(example);
      byId("pads").append(example.element);
    }
    this.#edited();
  }

  #edited() {
    this.stale = true;
    byId("image-steps-value").textContent = byId("image-steps").value;
    this.refresh();
  }

  #clear() {
    this.#setQuestions([]);
    for (const one of [...this.examples, this.query]) one.clear();
  }

  #shapes() {
    this.#setQuestions([]);
    this.query.clear();
    const shapes = someShapes(this.examples.length);
    this.examples.forEach((one, n) => this.#setShape(one, shapes[n]));
  }

  #setShape(example, shape) {
    example.pad.setStrokes(byHand(shape));
    example.again = async (pad) => pad.setStrokes(byHand(shape));
  }

  async #drawEpisode() {
    return api.task(this.model.name, { seed: Math.floor(Math.random() * 2 ** 31), shots: 1 });
  }

  /** A random test character where the server has some, else a shape of ours. */
  async #random(example) {
    if (this.pool && !this.pool.length) {
      try {
        const { support, query } = await this.#drawEpisode();
        const twin = (label) => query.images[query.labels.indexOf(label)];
        this.pool = support.images.map((image, n) => ({ image, twin: twin(support.labels[n]) }));
      } catch (error) {
        if (error.status !== 404) throw error;
        this.pool = null; // there are no data
      }
    }
    const found = this.pool?.pop();
    if (!found) return this.#setShape(example, someShapes(1)[0]);
    await example.pad.setPicture(found.image);
    example.again = found.twin ? (pad) => pad.setPicture(found.twin) : null;
    return undefined;
  }

  /** Another drawing of one of the examples, as a question. */
  async #another() {
    const known = this.examples.filter((one) => one.again);
    if (!known.length) throw new Error("Another drawing is known only of random characters. Take some as examples, or draw the question.");
    await known[Math.floor(Math.random() * known.length)].again(this.query.pad);
  }

  async #episode() {
    const remark = byId("episode-remark");
    try {
      const { support, query } = await this.#drawEpisode();
      const classes = [...new Set(support.labels)];
      remark.hidden = true;
      this.trouble(null);
      this.#setWays(classes.length);
      this.#setQuestions(query.images.map((image, n) => ({ image, letter: LETTERS[classes.indexOf(query.labels[n])] })));
      await Promise.all(this.examples.map(async (one, n) => {
        await one.pad.setPicture(support.images[support.labels.indexOf(classes[n])]);
        const twins = query.images.filter((_, m) => query.labels[m] === classes[n]);
        one.again = twins.length ? (pad) => pad.setPicture(twins[Math.floor(Math.random() * twins.length)]) : null;
      }));
      await this.query.pad.setPicture(query.images[0]);
    } catch (error) {
      if (error.status !== 404) throw error;
      remark.textContent = error.message;
      remark.hidden = false;
    }
  }

  #setQuestions(questions) {
    this.questions = questions;
    byId("queries").hidden = !questions.length;
    byId("query-list").replaceChildren(...questions.map((one) => {
      one.mark = html("span", { class: "mark" }, "…");
      one.button = html("button", { class: "question", onclick: () => this.query.pad.setPicture(one.image).catch(this.trouble) },
        html("img", { src: asUrl(one.image), alt: "", width: 44, height: 44 }), one.mark);
      return one.button;
    }));
  }

  async #work() {
    const filled = this.examples.filter((one) => !one.pad.empty);
    this.patience.begin();
    try {
      if (filled.length < LEAST) this.#wait();
      else {
        if (this.stale || !this.adapter) await this.#adapt(filled);
        await this.#ask().catch(async (error) => {
          if (!GONE.includes(error.status)) throw error;
          await this.#adapt(filled);
          await this.#ask();
        });
      }
      this.trouble(null);
    } catch (error) {
      this.#forget();
      byId("verdict").textContent = "There is no answer to this drawing.";
      this.trouble(error);
    } finally {
      this.patience.end();
    }
  }

  /** Takes away what answers other drawings: the probabilities, and, while the model is adapted anew, the marks. */
  #forget() {
    this.bars.show(null);
    if (this.adapter) return;
    byId("query-score").textContent = "";
    for (const one of this.questions) {
      one.mark.textContent = "…";
      one.button.classList.remove("wrong");
      one.button.removeAttribute("aria-label");
    }
  }

  #wait() {
    this.bars.clear();
    byId("verdict").textContent = "Draw at least two examples; or let the buttons above do it.";
  }

  async #adapt(filled) {
    this.stale = false; // set again by whoever draws while this waits
    const steps = Number(byId("image-steps").value);
    const images = filled.map((one) => one.pad.png());
    const old = this.adapter;
    this.adapter = null; // until there is a new one: the old answers for other drawings
    const support = { images, labels: filled.map((one) => one.letter) };
    const answer = await api.adapt(this.model.name, { support, steps }).catch((error) => {
      this.bars.clear();
      byId("image-speed").textContent = "";
      throw error;
    });
    this.adapter = { id: answer.adapter, model: this.model.name };
    this.bars.setClasses(filled.map((one, n) => ({ letter: one.letter, image: images[n] })));
    byId("image-speed").textContent = `Learned from ${filled.length} drawings in ${number(answer.milliseconds)} ms.`;
    if (old) api.forget(old.model, old.id).catch(() => {}); // it may be gone already
    await this.#judge();
  }

  async #probabilities(images) {
    const { probabilities, classes } = await api.predict(this.model.name, { adapter: this.adapter.id, query: { images } });
    return probabilities.map((row) => Object.fromEntries(classes.map((letter, n) => [letter, row[n]])));
  }

  async #ask() {
    if (this.query.pad.empty) {
      this.bars.show(null);
      byId("verdict").textContent = "Now draw one of them again.";
      return;
    }
    const [found] = await this.#probabilities([this.query.pad.png()]);
    const [letter, share] = Object.entries(found).sort(([, a], [, b]) => b - a)[0];
    this.bars.show(found);
    byId("verdict").replaceChildren(html("strong", {}, letter), ` with ${Math.round(100 * share)}%`);
    this.say(`Most likely ${letter}, ${Math.round(100 * share)} percent`);
  }

  /** Answers all questions of an episode. */
  async #judge() {
    const asked = this.questions;
    if (!asked.length) return;
    const found = await this.#probabilities(asked.map((one) => one.image));
    let right = 0;
    asked.forEach((one, n) => {
      const [letter] = Object.entries(found[n]).sort(([, a], [, b]) => b - a)[0];
      const good = letter === one.letter;
      right += good;
      one.mark.textContent = good ? `${letter} ✓` : `${letter} ✗`;
      one.button.classList.toggle("wrong", !good);
      one.button.setAttribute("aria-label", `Question ${n + 1}: taken for ${letter}, ${good ? "right" : `it is ${one.letter}`}. Show it`);
    });
    byId("query-score").textContent = `${right} of ${asked.length} right.`;
  }
}
