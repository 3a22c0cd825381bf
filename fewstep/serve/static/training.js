// The training tab: the runs of the server's folder, drawn as they train.

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { announcer, byId, html, ruleName, whole } from "./dom.js";
import { lookOf, swatch } from "./series.js";

const FIRST = 4; // runs that are chosen at the start
const LIVE = 1000; // milliseconds between looks while something trains
const IDLE = 4000;

/** Opens the tab; `watched()` says whether it is in front. */
export function openTraining(trouble, watched) {
  new Training(trouble, watched);
}

class Training {
  constructor(trouble, watched) {
    Object.assign(this, { trouble, watched, runs: [], entries: new Map() });
    this.chart = new Chart(byId("chart"), announcer(byId("training-said"), 250));
    for (const input of document.querySelectorAll("[name=what], #log-scale, #smooth")) input.addEventListener("change", () => this.draw());
    this.#look();
  }

  async #look() {
    if (this.watched() && !document.hidden) {
      try {
        this.#list(await api.runs());
        await Promise.all([...this.entries.values()].filter((one) => one.chosen).map((one) => this.#read(one)));
        this.trouble(null);
        this.draw();
      } catch (error) {
        this.trouble(error);
      }
    }
    const live = this.runs.some((run) => run.training);
    setTimeout(() => this.#look(), live || !this.runs.length ? LIVE : IDLE);
  }

  /** Brings the list on the page up to date: a new run gets a row and a look, and keeps them. */
  #list(runs) {
    this.runs = runs;
    byId("training-none").hidden = runs.length > 0;
    byId("training-body").hidden = runs.length === 0;
    const names = new Set(runs.map((run) => run.name));
    for (const [name, one] of this.entries) {
      if (names.has(name)) continue;
      one.element.remove();
      this.entries.delete(name);
    }
    const first = this.entries.size === 0;
    const eager = new Set([...runs].sort((a, b) => b.training - a.training).slice(0, FIRST).map((run) => run.name));
    for (const run of runs) {
      if (!this.entries.has(run.name)) this.#add(run, first && eager.has(run.name));
      this.#tell(this.entries.get(run.name), run);
    }
  }

  #add(run, chosen) {
    const look = lookOf(run);
    const one = { name: run.name, look, chosen, rows: [], after: -1, live: false };
    const box = html("input", { type: "checkbox", checked: chosen, onchange: () => this.#chosen(one, box.checked) });
    one.box = box;
    one.state = html("span", { class: "hint" });
    one.progress = html("progress", { max: 1, value: 0, "aria-label": `Progress of ${run.name}` });
    one.element = html("li", { "data-run": run.name },
      html("label", {}, box, swatch(look), html("span", { class: "run-name" }, run.name)), one.state, one.progress);
    this.entries.set(run.name, one);
    byId("runs").append(one.element);
  }

  #tell(one, run) {
    one.run = run;
    if (run.training && !one.live) one.chosen = one.box.checked = true; // what begins to train is drawn
    one.live = run.training;
    one.element.classList.toggle("live", run.training);
    one.progress.value = run.steps ? run.step / run.steps : 0;
    const how = run.training ? `training, step ${whole(run.step)} of ${whole(run.steps)}`
      : run.step >= run.steps ? `${whole(run.steps)} steps` : `stopped at step ${whole(run.step)} of ${whole(run.steps)}`;
    one.state.textContent = `${ruleName(run.rule)} on ${run.tasks}, ${how}`;
  }

  async #chosen(one, chosen) {
    one.chosen = chosen;
    if (chosen) await this.#read(one).catch(this.trouble);
    this.draw();
  }

  /** Reads the rows that are new; a log that was cut, because a run was begun again, is read from its start. */
  async #read(one) {
    if (one.run.step < one.after) Object.assign(one, { rows: [], after: -1 });
    const rows = await api.log(one.name, one.after);
    one.rows.push(...rows.filter((row) => row.step > one.after));
    one.after = Math.max(one.after, ...rows.map((row) => row.step));
  }

  draw() {
    const what = document.querySelector("[name=what]:checked").value;
    const lines = [...this.entries.values()].filter((one) => one.chosen).map((one) => ({ name: one.name, look: one.look, ...mean(one.rows, what) }));
    const metrics = new Set([...this.entries.values()].filter((one) => one.chosen).map((one) => one.run.metric ?? ""));
    const label = what === "loss" ? "training loss" : `validation${metrics.size === 1 ? `: ${[...metrics][0]}` : ""}`;
    this.chart.draw(lines, { log: byId("log-scale").checked, smooth: byId("smooth").checked && what === "loss", label });
  }
}

/** The mean over the seeds at every step that has values. */
function mean(rows, what) {
  const sums = new Map();
  for (const row of rows) {
    const value = row[what];
    if (typeof value !== "number" || !Number.isFinite(value)) continue;
    const [sum, count] = sums.get(row.step) ?? [0, 0];
    sums.set(row.step, [sum + value, count + 1]);
  }
  const steps = [...sums.keys()].sort((a, b) => a - b);
  return { x: steps, y: steps.map((step) => sums.get(step)[0] / sums.get(step)[1]) };
}
