"""Unseen tasks of encoded items in a report: the sentences or images themselves, and what a model takes them for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from markupsafe import Markup

from fewstep._episode import Batch
from fewstep.encoders import Item, encode_few
from fewstep.pages import heading, note, paragraph, table
from fewstep.problems._episodes import EXPLANATION, ExampleEpisode, episodes_html, write_png
from fewstep.problems._kind import Problem, Sketch

_TASKS = 3
_SENTENCES = "Test classes that the model has not seen in training: {} of each to learn from, one more to recognize."
_LONGEST = 60  # characters of a text that are shown


class _Task(NamedTuple):
    """The names of its classes, the items of each that are learned from, and one more of each."""

    names: list[str]
    support: list[Sequence[Item]]
    query: list[Item]


def draw_encoded(problem: Problem, sketches: list[Sketch]) -> list[Markup]:
    """A few tasks of test classes with the answers of each model; nothing where the items are not here any more."""
    items = problem.details.items
    parts: list[Markup] = []
    if not items.here():
        return parts
    classes = items.load("test")
    for sketch in sketches:
        usable = [name for name, own in classes.items() if len(own) > sketch.shots]
        if len(usable) < 2:
            continue
        tasks = [_draw(classes, usable, problem.ways or 2, sketch.shots, seed) for seed in range(_TASKS)]
        answers = [_answer(problem, sketch, task) for task in tasks]
        show = _images if items.modality == "image" else _texts
        parts += [heading(sketch.name, 3), show(tasks, answers)]
    about = EXPLANATION if items.modality == "image" else _SENTENCES.format(sketches[0].shots if sketches else 1)
    return [heading("Unseen tasks"), paragraph(about), *parts] if parts else parts


def _draw(
    classes: Mapping[str, Sequence[Item]], usable: list[str], ways: int, shots: int, seed: int
) -> _Task:  # fmt: skip
    random = np.random.default_rng(seed)
    names = [usable[n] for n in random.permutation(len(usable))[:ways]]
    drawn = [[classes[name][n] for n in random.permutation(len(classes[name]))[: shots + 1]] for name in names]
    return _Task(names, [own[:-1] for own in drawn], [own[-1] for own in drawn])


def _answer(problem: Problem, sketch: Sketch, task: _Task) -> np.ndarray:
    """The probability of each class, of each query."""
    encode = lambda items: jnp.asarray(encode_few(problem.details.encoder, items))
    x = encode([item for own in task.support for item in own])
    support = Batch(x, jnp.repeat(jnp.arange(len(task.names)), sketch.shots), jnp.ones(len(x)))
    return sketch.answer(support, encode(task.query), steps=sketch.steps, ways=len(task.names)).mean


def _images(tasks: list[_Task], answers: list[np.ndarray]) -> Markup:
    png = lambda item: write_png(np.asarray(item) / 255)
    return episodes_html([
        ExampleEpisode(
            [png(own[0]) for own in task.support], [png(item) for item in task.query], list(range(len(task.names))),
            shares.argmax(-1).tolist(), np.round(shares.max(-1), 3).tolist(),
        )
        for task, shares in zip(tasks, answers, strict=True)
    ])  # fmt: skip


def _texts(tasks: list[_Task], answers: list[np.ndarray]) -> Markup:
    rows, right = [], 0
    for task, shares in zip(tasks, answers, strict=True):
        for number, (text, name) in enumerate(zip(task.query, task.names, strict=True)):
            best = int(shares[number].argmax())
            right += best == number
            learned = " / ".join(str(own) for own in task.support[number])
            rows.append([name, f"{task.names[best]}, {shares[number, best]:.0%}", _cut(str(text)), _cut(learned)])
    return note(f"{right} of {len(rows)} right.") + table(["label", "answer", "sentence", "learned from"], rows)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
