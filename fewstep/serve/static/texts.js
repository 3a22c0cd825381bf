// The texts tab: a few examples of each label, then a sentence, and the probabilities while it is written.

import * as api from "./api.js";
import { Bars } from "./bars.js";
import { announcer, byId, html, number, ruleName } from "./dom.js";
import { LabelGroup } from "./labels.js";
import { Patience, reporter } from "./waiting.js";

const LEAST = 2;
const FIRST = 3; // labels at the start
const PAUSE = 150; // milliseconds without a key until the model is asked
const GONE = [404, 410]; // the service has forgotten an adapter

/** Opens the tab: `models` as the service lists them, `trouble(error)` shows what went wrong. */
export function openTexts(models, trouble) {
  const usable = models.filter((model) => model.kind === "text");
  byId("texts-none").hidden = usable.length > 0;
  byId("texts-body").hidden = usable.length === 0;
  if (usable.length) new Texts(usable, trouble);
}

class Texts {
  constructor(models, trouble) {
    this.models = models;
    this.trouble = trouble;
    this.say = announcer(byId("texts-said"), 900);
    this.bars = new Bars(byId("text-bars"));
    this.groups = [];
    this.adapter = null;
    this.stale = true; // the examples have changed since the model was adapted to them
    this.timer = 0;
    this.refresh = api.latest(() => this.#work());
    this.patience = new Patience(() => { this.bars.show(null); this.report(); });
    this.report = reporter(() => this.patience.late, (text) => { byId("text-verdict").textContent = text; });
    this.#controls();
    this.#choose(models[0]);
  }

  #controls() {
    const choice = byId("text-model");
    choice.append(...this.models.map((model, n) => html("option", { value: n }, `${model.name} (${ruleName(model.rule)})`)));
    byId("text-model-label").hidden = this.models.length < 2;
    choice.addEventListener("change", () => this.#choose(this.models[choice.value]));
    byId("draw-texts").addEventListener("click", () => this.#draw().catch(this.trouble));
    byId("add-label").addEventListener("click", () => this.#add().name.focus());
    byId("clear-texts").addEventListener("click", () => this.#setLabels(new Map()));
    byId("sentence").addEventListener("input", () => this.#soon());
  }

  #choose(model) {
    this.model = model;
    this.adapter = null;
    if (this.groups.length) this.#edited();
    else this.#setLabels(new Map());
  }

  /** Asks once the hand rests. */
  #soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.refresh, PAUSE);
  }

  #edited() {
    this.stale = true;
    this.#setQuestions([]);
    this.#soon();
  }

  /** Replaces all labels: a map from names to examples, filled up with empty ones. */
  #setLabels(examples) {
    for (const group of this.groups.splice(0)) group.element.remove();
    for (const [name, texts] of examples) this.#add().fill(name, texts);
    while (this.groups.length < (examples.size ? LEAST : FIRST)) this.#add();
    this.#edited();
  }

  #add() {
    const group = new LabelGroup({ changed: () => this.#edited(), removed: () => this.#remove(group) });
    this.groups.push(group);
    byId("labels").append(group.element);
    this.#number();
    return group;
  }

  #remove(group) {
    const place = this.groups.indexOf(group);
    this.groups.splice(place, 1);
    group.element.remove();
    this.#number();
    (this.groups[Math.min(place, this.groups.length - 1)]?.name ?? byId("add-label")).focus();
    this.#edited();
  }

  #number() {
    this.groups.forEach((group, n) => group.setNumber(n + 1, this.groups.length > LEAST));
    byId("add-label").disabled = this.groups.length >= (this.model.limits?.ways ?? 20);
  }

  async #draw() {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const { support, query } = await api.task(this.model.name, { seed, shots: 3 });
    const examples = new Map();
    support.labels.forEach((label, n) => examples.set(label, [...(examples.get(label) ?? []), support.x[n]]));
    this.#setLabels(examples);
    this.#setQuestions(query.x);
    this.#write(query.x[0]);
  }

  #setQuestions(texts) {
    byId("text-questions").hidden = !texts.length;
    byId("text-question-list").replaceChildren(
      ...texts.map((text) => html("button", { class: "sentence", onclick: () => this.#write(text) }, text)));
  }

  #write(text) {
    byId("sentence").value = text;
    this.#soon();
  }

  async #work() {
    const filled = this.groups.filter((group) => group.texts.length);
    this.patience.begin();
    try {
      if (new Set(filled.map((group) => group.label)).size < LEAST) this.#wait();
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
      this.bars.show(null);
      byId("text-verdict").textContent = "There is no answer to this sentence.";
      this.trouble(error);
    } finally {
      this.patience.end();
    }
  }

  #wait() {
    this.bars.clear();
    byId("text-speed").textContent = "";
    byId("text-verdict").textContent = "Write examples of at least two labels; or let the button do it.";
  }

  async #adapt(filled) {
    this.stale = false; // set again by whoever writes while this waits
    const support = { x: filled.flatMap((group) => group.texts), labels: filled.flatMap((group) => group.texts.map(() => group.label)) };
    const old = this.adapter;
    this.adapter = null; // until there is a new one: the old answers for other examples
    const answer = await api.adapt(this.model.name, { support }).catch((error) => {
      this.bars.clear();
      byId("text-speed").textContent = "";
      throw error;
    });
    this.adapter = { id: answer.adapter, model: this.model.name };
    this.bars.setClasses(answer.classes.map((letter) => ({ letter })));
    byId("text-speed").textContent = `Learned from ${support.x.length} examples in ${number(answer.milliseconds)} ms.`;
    if (old) api.forget(old.model, old.id).catch(() => {}); // it may be gone already
  }

  async #ask() {
    const text = byId("sentence").value.trim();
    if (!text) {
      this.bars.show(null);
      byId("text-verdict").textContent = "Now write a sentence.";
      return;
    }
    const query = { x: [text] };
    const { probabilities, classes, unknown } = await api.predict(this.model.name, { adapter: this.adapter.id, query });
    const shares = probabilities[0];
    const best = shares.indexOf(Math.max(...shares));
    const percent = Math.round(100 * shares[best]);
    this.bars.show(Object.fromEntries(classes.map((label, n) => [label, shares[n]])), unknown?.[0]);
    if (unknown?.[0]) {
      byId("text-verdict").replaceChildren(html("strong", {}, "None of these"), ` Nearest: ${classes[best]}.`);
      this.say(`None of these; nearest is ${classes[best]}`);
    } else {
      byId("text-verdict").replaceChildren(html("strong", {}, classes[best]), ` with ${percent}%`);
      this.say(`Most likely ${classes[best]}, ${percent} percent`);
    }
  }
}
