// The curves tab: points in, every model's adapted curve out, as fast as the hand moves.

import * as api from "./api.js";
import { Contestant, errorTo, grid } from "./contestant.js";
import { announcer, byId, html, number, ruleName } from "./dom.js";
import { makeEditable } from "./editing.js";
import { Plot } from "./plot.js";
import { Points } from "./points.js";
import { lookOf, swatch } from "./series.js";
import { Strip } from "./strip.js";
import { reporter } from "./waiting.js";

const FIRST_STEPS = 5; // where the slider stands at first: a few more than most models were trained with

/** Opens the tab: `models` as the service lists them, `trouble(error)` shows what went wrong. */
export function openCurves(models, trouble) {
  const usable = models.filter((model) => model.kind === "curve" && model.x_width === 1 && model.y_width === 1);
  byId("curves-none").hidden = usable.length > 0;
  byId("curves-body").hidden = usable.length === 0;
  if (usable.length) new Curves(usable, trouble);
}

class Curves {
  constructor(models, trouble) {
    this.trouble = trouble;
    this.families = Object.groupBy
      ? Object.groupBy(models, (model) => model.tasks)
      : models.reduce((found, model) => ({ ...found, [model.tasks]: [...(found[model.tasks] ?? []), model] }), {});
    this.task = null; // the true curve of the task that was drawn
    this.showBefore = true;
    this.say = announcer(byId("curves-said"), 900);
    this.plot = new Plot(byId("plot"), { label: "Plot of support points and adapted curves", describedBy: "plot-help" });
    this.points = new Points(() => this.edited());
    this.plot.redraw = () => this.draw();
    this.waiting = 0; // the frame in which to draw
    this.report = reporter(() => this.contestants.some((one) => one.late), (text) => this.#status(text));
    makeEditable(this.plot, this.points, announcer(byId("plot-said"), 150));
    this.#controls();
    this.#choose(Object.keys(this.families)[0]);
  }

  /** The true curve, where there is one and it may be seen. */
  get truth() {
    return this.truthBox.checked ? this.task : null;
  }

  get settings() {
    return { steps: Number(byId("steps").value), pace: Number((10 ** Number(byId("pace").value)).toPrecision(3)) };
  }

  #controls() {
    const choice = byId("family");
    choice.append(...Object.keys(this.families).map((name) => html("option", { value: name }, name)));
    byId("family-label").hidden = Object.keys(this.families).length < 2;
    choice.addEventListener("change", () => this.#choose(choice.value));
    for (const id of ["steps", "pace"]) byId(id).addEventListener("input", () => { this.stopPlaying(); this.changed(); });
    byId("as-trained").addEventListener("click", () => { this.stopPlaying(); this.#asTrained(); this.changed(); });
    byId("play-steps").addEventListener("click", () => (this.playing ? this.stopPlaying() : this.#play()));
    byId("draw-task").addEventListener("click", () => this.#drawTask());
    byId("undo").addEventListener("click", () => this.points.undo());
    byId("clear").addEventListener("click", () => this.points.replace([]));
    byId("remove-point").addEventListener("click", () => this.points.remove(this.points.selected));
  }

  #choose(family) {
    this.stopPlaying();
    const models = this.families[family];
    const [first] = models;
    this.task = null;
    this.plot.forgetModels();
    this.x = grid(first.x_range ?? [-5, 5], Math.min(200, first.limits?.queries ?? 200));
    this.plot.setRange(first.x_range ?? [-5, 5], wider(first.y_range ?? [-5, 5]));
    const short = new Set(models.map((model) => model.rule)).size === models.length;
    this.contestants = models.map((model) =>
      new Contestant(model, short ? ruleName(model.rule) : model.name, lookOf(model), (fresh) => this.answered(fresh)));
    this.strips = this.contestants.map((one) => new Strip(one));
    byId("strips").replaceChildren(...this.strips.map((strip) => strip.element));
    this.#legend();
    this.#asTrained(FIRST_STEPS);
    this.points.reset();
  }

  #asTrained(least = 1) {
    byId("steps").value = Math.max(least, ...this.contestants.map(({ model }) => model.inner_steps ?? 1));
    byId("pace").value = 0;
  }

  #legend() {
    const models = this.contestants.map((one) =>
      html("label", { class: "key" },
        html("input", { type: "checkbox", checked: true, onchange: (event) => { one.visible = event.target.checked; this.draw(); } }),
        swatch(one.look), one.title));
    const before = html("label", { class: "key" },
      html("input", { type: "checkbox", checked: true, onchange: (event) => { this.showBefore = event.target.checked; this.draw(); } }),
      swatch("before"), "before adapting");
    this.truthBox = html("input", { type: "checkbox", checked: true, id: "show-truth", onchange: () => this.changed() });
    this.truthKey = html("label", { class: "key", hidden: true }, this.truthBox, swatch("truth"), "true curve");
    byId("legend").replaceChildren(...models, before, this.truthKey);
  }

  async #drawTask() {
    const { model } = this.contestants[0];
    try {
      const shots = Math.min(model.shots, model.limits?.points ?? model.shots);
      const drawn = await api.task(model.name, { seed: Math.floor(Math.random() * 2 ** 31), shots });
      this.task = { x: drawn.curve.x.map(flat), y: drawn.curve.y.map(flat) };
      if (this.task.x.length <= (model.limits?.queries ?? 200)) this.x = this.task.x;
      this.trouble(null);
      this.points.replace(drawn.support.x.map((x, n) => [flat(x), flat(drawn.support.y[n])]));
    } catch (error) {
      this.trouble(error);
    }
  }

  #play() {
    const goal = Math.max(1, this.settings.steps);
    let step = 0;
    byId("play-steps").textContent = "Stop";
    const tick = () => {
      byId("steps").value = step;
      this.changed();
      if (step++ >= goal) this.stopPlaying();
    };
    this.playing = setInterval(tick, Math.max(60, Math.min(350, 3000 / goal)));
    tick();
  }

  stopPlaying() {
    clearInterval(this.playing);
    this.playing = null;
    byId("play-steps").textContent = "Play the steps";
  }

  /** After a change of the points. */
  edited() {
    byId("undo").disabled = !this.points.canUndo;
    byId("clear").disabled = !this.points.list.length;
    byId("remove-point").disabled = this.points.selected == null;
    this.changed();
  }

  /** After any change of what is asked: shows it at once, and asks every model. */
  changed() {
    this.#sliders();
    this.truthKey.hidden = !this.task;
    this.plot.invite(this.points.list.length === 0);
    const support = { x: this.points.list.map(({ x }) => [x]), y: this.points.list.map(({ y }) => [y]) };
    const question = { x: this.x, support, ...this.settings };
    for (const one of this.contestants) one.ask(question);
    this.draw();
  }

  #sliders() {
    const { steps, pace } = this.settings;
    const sizes = new Set(this.contestants.map(({ model }) => model.inner_lr));
    const [size] = sizes;
    const absolute = sizes.size === 1 && size != null ? ` = ${Number((pace * size).toPrecision(2))}` : "";
    const times = pace < 1 ? pace.toFixed(2) : pace.toFixed(1);
    byId("steps-value").textContent = String(steps);
    byId("pace-value").textContent = `× ${times}${absolute}`;
    byId("steps").setAttribute("aria-valuetext", `${steps} steps`);
    byId("pace").setAttribute("aria-valuetext", `${times} times as trained${absolute}`);
  }

  /** After a model has answered, or has not for a while (`fresh`); or has moved a little on its way to the answer. */
  answered(fresh) {
    if (fresh) {
      const error = this.contestants.find((one) => one.error)?.error ?? null;
      this.trouble(error);
      if (error) this.#status(error.status === 0 ? "The server does not answer." : "There is no answer.");
      else if (this.contestants.some((one) => one.late)) this.report();
      else this.#status("");
      this.stale = true;
    }
    this.draw();
  }

  /** Says above the plot why there is no answer yet, and what is drawn instead. */
  #status(text) {
    const drawn = this.contestants.some((one) => one.stale && one.shown.y);
    const said = text && drawn ? `${text} Faint curves are the last answer.` : text;
    if (byId("plot-status").textContent !== said) byId("plot-status").textContent = said;
  }

  /** Draws in the next frame; what comes until then is drawn with it. */
  draw() {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.#draw();
    });
  }

  #draw() {
    this.plot.drawTruth(this.truth);
    for (const one of this.contestants) {
      const before = this.showBefore ? one.before : null;
      this.plot.drawModel(one.model.name, one.look, one.visible ? { ...one.shown, x: one.x, before, stale: one.stale } : {});
    }
    this.plot.drawPoints(this.points.list, this.points.selected);
    if (!this.stale) return;
    this.stale = false;
    this.#table();
    const moved = this.contestants.flatMap((one) => (one.answer?.detail?.layers ?? []).map((layer) => layer.moved));
    const most = Math.max(1e-9, ...moved);
    for (const strip of this.strips) strip.draw(most);
  }

  #table() {
    const rows = this.contestants.map((one) => ({ one, ...this.#errors(one) }));
    const column = this.truth ? "after" : "points"; // by which they are compared
    const best = Math.min(...rows.map((row) => row[column] ?? Infinity));
    byId("scores").tBodies[0].replaceChildren(...rows.map((row) => scoreRow(row, row[column] === best ? column : null)));
    const { steps } = this.settings;
    byId("scores-caption").textContent = `Mean squared error after ${steps} ${steps === 1 ? "step" : "steps"}.`
      + (this.truth ? "" : " A random task has a true curve to be judged by.");
    const times = this.contestants.filter((one) => one.answer && !one.stale).map((one) => one.answer.milliseconds);
    byId("speed").textContent = times.length ? `Adapted and asked at ${this.x.length} points in ${number(Math.max(...times))} ms.` : "";
    if (this.points.list.length && !rows.some(({ one }) => one.stale)) {
      this.say(rows.map(({ one, points, after }) => `${one.title}: error ${number(after ?? points)}`).join("; "));
    }
  }

  /** The errors of a model that are known for what is asked now. */
  #errors(one) {
    const answer = one.stale ? null : one.answer;
    return {
      points: answer ? answer.loss_after : null,
      before: one.before && this.truth ? errorTo(this.truth, one.x, one.before) : null,
      after: answer && this.truth ? errorTo(this.truth, one.x, answer.y) : null,
    };
  }
}

/** The errors of a model; its name and the error in the column `best` are bold. */
function scoreRow({ one, ...errors }, best) {
  const text = (name) => (one.late && name !== "before" ? "…" : one.diverged && name === "after" ? "diverged" : number(errors[name]));
  const bold = (is) => (is ? " best" : "");
  return html("tr", { "data-model": one.model.name },
    html("th", { scope: "row", class: bold(best != null) }, swatch(one.look), one.title),
    ...["points", "before", "after"].map((name) => html("td", { class: `figure ${name}${bold(name === best)}` }, text(name))));
}

/** A range with a little room above and below. */
const wider = ([low, high]) => [low - 0.08 * (high - low), high + 0.08 * (high - low)];

const flat = (value) => (Array.isArray(value) ? value[0] : value);
