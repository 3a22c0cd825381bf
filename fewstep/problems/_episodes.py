"""Example episodes of images, with a model's answers: drawn from test classes, shown as HTML."""

import base64
import io
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from markupsafe import Markup

from fewstep._outer import task_keys
from fewstep._streams import UNSEEN
from fewstep.pages import heading, image, note, paragraph, table
from fewstep.problems._kind import Answer, Problem, Sketch

EXPLANATION = (
    "Test classes that the model has not seen in training. The first line of an episode shows one image of each class; "
    "below, each query stands under the class the model took it for, with the probability it gave."
)


class ExampleEpisode(NamedTuple):
    """An episode with answers: images as PNG in base64, true labels, and the label and probability of the answer."""

    classes: list[str]
    queries: list[str]
    truth: list[int]
    answer: list[int]
    sure: list[float]


def example_episodes(
    problem: Problem, answer: Callable[..., Answer], ways: int, shots: int, steps: int, count: int = 4
) -> list[ExampleEpisode]:
    """Test episodes with what `answer(support, x, steps, ways)` says of them."""
    tasks, episodes = problem.tasks(shots, 1, "test", ways), []
    keys, _ = task_keys(jax.random.fold_in(jax.random.key(0), UNSEEN), jnp.arange(count))
    sample = jax.jit(tasks.sample)
    for key in keys:
        support, query = sample(tasks.data, key)
        shares = answer(support, query.x, steps=steps, ways=ways).mean
        episodes.append(ExampleEpisode(
            [write_png(image) for image in np.asarray(support.x)[::shots]],  # one image stands for its class
            [write_png(image) for image in np.asarray(query.x)], np.asarray(query.y).tolist(),
            shares.argmax(-1).tolist(), np.round(shares.max(-1), 3).tolist(),
        ))  # fmt: skip
    return episodes


def draw_episodes(problem: Problem, sketches: list[Sketch]) -> list[Markup]:
    """The episodes of each model as parts of a report."""
    parts = [heading("Unseen tasks"), paragraph(EXPLANATION)]
    for sketch in sketches:
        episodes = example_episodes(problem, sketch.answer, problem.outputs, sketch.shots, sketch.steps)
        parts += [heading(sketch.name, 3), episodes_html(episodes)]
    return parts


def episodes_html(episodes: list[ExampleEpisode]) -> Markup:
    """Episodes one after the other, and how many queries were right."""
    right = sum(a == t for episode in episodes for a, t in zip(episode.answer, episode.truth, strict=True))
    total = sum(len(episode.truth) for episode in episodes)
    return note(f"{right} of {total} right.") + Markup().join(map(_episode, episodes))


def write_png(pixels: np.ndarray, *, invert: bool = False) -> str:
    """An image of numbers from 0 to 1 as PNG in base64."""
    from PIL import Image

    pixels = np.round(255 * np.clip(1 - pixels if invert else pixels, 0, 1)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _episode(episode: ExampleEpisode) -> Markup:
    head = [image(data, f"class {n + 1}") for n, data in enumerate(episode.classes)]
    return table(head, [[_answers(episode, number) for number in range(len(head))]])


def _answers(episode: ExampleEpisode, number: int) -> Markup:
    """The queries that were taken for one class."""
    cells, line = [], Markup("<br>")
    for n, answer in enumerate(episode.answer):
        if answer == number:
            truth = episode.truth[n]
            mark = "right" if truth == number else f"wrong: class {truth + 1}"
            cells.append(image(episode.queries[n], f"query {n + 1}") + line + f"{mark}, {episode.sure[n]:.0%}")
    return line.join(cells)
