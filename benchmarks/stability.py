"""Whether every method trains by its defaults, with 1, 5 and 20 inner steps: the table in docs/reproductions.md.

python benchmarks/stability.py           trains what results/stability.json lacks, and writes the table into the page
python benchmarks/stability.py --table   only writes the table

Small sizes: sine waves for 600 steps; a conv4 of 8 filters on characters of Omniglot for 200 steps of 4 tasks. Each row
has the error on the validation tasks, after as many inner steps as in training, before any outer step and after the
last: squared error, or the share of wrong classes. Nothing is chosen but the number of inner steps; the rows after
those show what happens without the clips, and from other starts.
"""

import dataclasses
import json
import platform
import re
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import tyro

from fewstep import Experiment, train
from fewstep.experiments import ALIASES, build
from fewstep.files import JSON, read_json, write_json
from fewstep.machine.provenance import commit
from fewstep.rules import LINKS, RULES
from fewstep.training import NotFinite

OUT = Path(__file__).resolve().parent / "results" / "stability.json"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproductions.md"
STEPS = (1, 5, 20)
SAME = ("metric", "mask", "full_mask", "rates", "step_rates")  # links that are a rule under another name
METHODS = (*RULES, *(link for link in LINKS if link not in (*RULES, *SAME)), *ALIASES)
NORM = ("step_norm", "reptile")  # methods that need a normalization which tasks adapt
UNCLIPPED: dict[str, Any] = {"inner_clip": 0.0, "clip_norm": 0.0}
SIZES: dict[str, dict[str, Any]] = {
    "sinusoid": {"steps": 600, "seeds": 3, "validation_tasks": 100},
    "omniglot": {"steps": 200, "seeds": 1, "validation_tasks": 50, "filters": 8, "meta_batch": 4},
}


class Row(NamedTuple):
    """A method on some tasks with so many inner steps, and options other than the defaults."""

    method: str
    tasks: str
    inner_steps: int
    options: dict[str, Any] = {}  # noqa: RUF012

    @property
    def key(self) -> dict[str, Any]:
        return {"method": self.method, "tasks": self.tasks, "inner_steps": self.inner_steps, "options": self.options}


def rows() -> list[Row]:
    """All rows, the most telling first; a normalization, which step_norm is about, is in the conv4 alone."""
    grid = [
        Row(method, tasks, steps, {"adapt_norm": True} if tasks == "omniglot" and method in NORM else {})
        for steps in (5, 20, 1) for tasks in SIZES for method in METHODS
        if tasks == "omniglot" or method != "step_norm"
    ]  # fmt: skip
    he: dict[str, Any] = {"init": "he"}
    more: list[tuple[str, int, dict[str, Any]]] = [
        ("mtnet", 5, {}), ("mtnet", 20, {}), ("meta_sgd", 20, {}), ("mtnet+rates", 5, {}), ("meta_sgd", 5, he),
        ("mtnet", 1, {"inner_lr": 1.0}),
    ]  # fmt: skip
    return grid + [
        Row(method, "sinusoid", steps, {**own, **clips})
        for method, steps, own in more for clips in ({}, UNCLIPPED)
        if clips or own or method not in METHODS
    ]  # fmt: skip


def measured(row: Row) -> dict[str, Any]:
    """The errors of one row."""
    begin = time.process_time()
    size = SIZES[row.tasks]
    built = build(Experiment(row.method, row.tasks, inner_steps=row.inner_steps, **{**size, **row.options}))
    validate, data = built.validation()
    _, before = validate(built.first(), data)
    experiment = built.experiment
    try:
        trained = train(
            built.learner, built.training, steps=experiment.steps, optimizer=built.optimizer, outer=built.outer,
            meta_batch=experiment.meta_batch, state=built.first(), log_every=experiment.steps, small=True,
            chunk=1 if row.tasks == "omniglot" else None,
        )  # fmt: skip
        _, after = validate(trained.state, data)
        diverged = int((~np.isfinite(np.asarray(after))).sum())
    except NotFinite:
        after, diverged = None, experiment.seeds
    jax.clear_caches()
    return row.key | {
        "before": _mean(before), "after": _mean(after), "diverged_seeds": diverged, "seeds": experiment.seeds,
        "cpu_seconds": round(time.process_time() - begin, 1),
    }  # fmt: skip


def _mean(scores: Any) -> float | None:
    """The mean over the seeds that did not diverge."""
    values = np.asarray(scores)
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else None


def table(results: list[dict[str, Any]]) -> str:
    """The rows in Markdown: before and after training, by tasks and inner steps."""
    columns = [(tasks, steps) for tasks in SIZES for steps in STEPS]
    names = {"sinusoid": "sine", "omniglot": "conv4"}
    lines = [["method", *(f"{names[tasks]}, {steps}" for tasks, steps in columns)], ["---"] * (1 + len(columns))]
    labels = {_label(row): row for row in results}
    for label in labels:
        own = {(row["tasks"], row["inner_steps"]): row for row in results if _label(row) == label}
        lines.append([label, *(_entry(own.get(column)) for column in columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _label(row: dict[str, Any]) -> str:
    own = {name: value for name, value in row["options"].items() if name != "adapt_norm"}
    clips = ", without clips" if own.keys() >= UNCLIPPED.keys() else ""
    rest = [f"`--{name.replace('_', '-')} {value:g}`" if isinstance(value, float) else f"`--{name} {value}`"
            for name, value in own.items() if name not in UNCLIPPED]  # fmt: skip
    return " ".join([f"`{row['method']}`", *rest]) + clips


def _entry(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    lost = f", {row['diverged_seeds']} of {row['seeds']} diverged" if row["diverged_seeds"] else ""
    return "diverged" if row["after"] is None else f"{row['before']:.2f} to {row['after']:.2f}{lost}"


@dataclasses.dataclass(frozen=True)
class Options:
    """The stability of every method by its defaults."""

    table: bool = False
    """Only write the table into the page."""
    only: tuple[str, ...] = ()
    """Tasks to take (default: all)."""
    out: Path = OUT
    """The file of the result."""


def main(options: Options) -> None:
    found: dict[str, JSON] = read_json(options.out) or {"name": "stability", "rows": []}
    known = {_key(row): row for row in found["rows"]}
    for row in () if options.table else rows():
        if _key(row.key) in known or (options.only and row.tasks not in options.only):
            continue
        known[_key(row.key)] = result = measured(row)
        print(json.dumps(result), flush=True)
        ordered = [known[_key(each.key)] for each in rows() if _key(each.key) in known]
        write_json(options.out, about() | {"rows": ordered})
    written = table([known[_key(each.key)] for each in rows() if _key(each.key) in known])
    marked = re.compile(r"(<!-- stability -->\n).*?(<!-- end -->)", re.S)
    page = marked.sub(lambda found: found[1] + written + "\n" + found[2], PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")


def _key(row: dict[str, Any]) -> str:
    return json.dumps([row[name] for name in ("method", "tasks", "inner_steps", "options")])


def about() -> dict[str, Any]:
    """What the result was made with."""
    names = ("jax", "jaxlib", "optax", "numpy")
    return {
        "name": "stability", "command": "python benchmarks/stability.py", "sizes": SIZES,
        "versions": {name: version(name) for name in names} | {"python": platform.python_version()},
        "commit": commit(),
    }  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Options))
