// A model on the plot: it asks the service for the newest question only, and its curve glides to the answer.

import { latest, predict } from "./api.js";
import { calm } from "./dom.js";
import { Patience } from "./waiting.js";

const MASKS = 16; // masks to draw for a band
const GLIDE = 45; // milliseconds in which a curve goes most of its way

/** So many values from low to high. */
export const grid = ([low, high], count) =>
  Array.from({ length: count }, (_, n) => low + ((high - low) * n) / (count - 1));

/** The mean squared distance between a curve, known at `x`, and the true one. */
export function errorTo(truth, x, y) {
  let sum = 0;
  for (let i = 0; i < truth.x.length; i++) sum += (truth.y[i] - (x === truth.x ? y[i] : between(x, y, truth.x[i]))) ** 2;
  return sum / truth.x.length;
}

function between(x, y, at) {
  let n = x.findIndex((value) => value >= at);
  if (n <= 0) n = n < 0 ? x.length - 1 : 1;
  const share = (at - x[n - 1]) / (x[n] - x[n - 1]);
  return y[n - 1] + share * (y[n] - y[n - 1]);
}

const column = (rows) => rows?.map((row) => (Array.isArray(row) ? row[0] : row)) ?? null;

export class Contestant {
  #question = null;
  #moving = 0;
  #last = 0;

  /** `look` is its color and dash; `moved(fresh)` is called when there is something to draw: an answer, or a frame. */
  constructor(model, title, look, moved) {
    Object.assign(this, { model, title, look, moved, visible: true, diverged: false });
    this.x = this.before = this.answer = this.error = null;
    this.shown = {}; // the adapted curve on its way to the answer; nothing without an answer
    this.#patience = new Patience(() => this.moved(true));
    this.#refresh = latest(() => this.#work());
  }

  #patience;
  #refresh;

  /** Whether the answer to the newest question is still awaited, for longer than a moment. */
  get late() {
    return this.#patience.late;
  }

  /** Whether what is shown answers another question than the newest. */
  get stale() {
    return this.late || this.error != null;
  }

  ask(question) {
    this.#question = question;
    this.#patience.begin();
    this.#refresh();
  }

  async #work() {
    const question = this.#question;
    try {
      if (this.x !== question.x) {
        const { y } = await predict(this.model.name, {
          support: { x: [[question.x[0]]], y: [[0]] }, steps: 0, query: { x: question.x.map((x) => [x]) },
        });
        this.x = question.x;
        this.before = column(y);
        this.shown = {};
      }
      this.#take(question.support.x.length ? await this.#adapted(question) : null);
    } catch (error) {
      if (error.code === "not_finite") this.#take(null, true); // the steps were too large: that is an answer, not a fault
      else this.error = error;
    }
    // While a hand moves, each answer is a little old. Once one was late, only the answer to the newest question will do.
    if (question === this.#question || !this.late) this.#patience.end();
    if (question !== this.#question) this.#patience.begin();
    this.#glide();
  }

  #take(answer, diverged = false) {
    Object.assign(this, { answer, diverged, error: null });
  }

  async #adapted({ x, support, steps, pace }) {
    const { masked, limits } = this.model;
    const answer = await predict(this.model.name, {
      support, steps: Math.min(steps, limits?.steps ?? steps), pace, seed: 0,
      samples: masked && steps > 0 ? Math.min(MASKS, limits?.samples ?? MASKS) : 1,
      detail: true, query: { x: x.map((value) => [value]) },
    });
    return { ...answer, y: column(answer.y), low: column(answer.low), high: column(answer.high) };
  }

  /** Moves what is shown towards the answer, a part of the way in each frame. */
  #glide() {
    if (this.error) return this.moved(true); // what was shown stays, and is marked
    const y = this.answer?.y;
    if (!y) {
      cancelAnimationFrame(this.#moving);
      this.#moving = 0;
      this.shown = {};
      return this.moved(true);
    }
    this.goal = { y, low: this.answer.low ?? y, high: this.answer.high ?? y };
    if (!this.shown.y || calm()) {
      this.#arrive();
      return this.moved(true);
    }
    if (!this.#moving) {
      this.#last = performance.now();
      this.#moving = requestAnimationFrame((now) => this.#frame(now));
    }
    return this.moved(true);
  }

  #arrive() {
    this.shown = { x: this.x, y: this.goal.y, low: this.answer?.low ? this.goal.low : null, high: this.answer?.high ? this.goal.high : null };
  }

  #frame(now) {
    const share = 1 - Math.exp(-(now - this.#last) / GLIDE);
    this.#last = now;
    let far = 0;
    const nearer = (from, to) => to.map((value, n) => {
      const was = Number.isFinite(from?.[n]) ? from[n] : value;
      far = Math.max(far, Math.abs(value - was));
      return was + share * (value - was);
    });
    const { y } = this.shown;
    const { goal } = this;
    this.shown = { x: this.x, y: nearer(y, goal.y), low: nearer(this.shown.low ?? y, goal.low), high: nearer(this.shown.high ?? y, goal.high) };
    this.#moving = 0;
    if (far > 0.004) this.#moving = requestAnimationFrame((next) => this.#frame(next));
    else this.#arrive();
    this.moved(false);
  }
}
