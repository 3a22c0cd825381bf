"""Example episodes of images, with a model's answers: drawn from test classes, shown as HTML."""

import base64
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from markupsafe import Markup

from fewstep._evaluate import light
from fewstep._outer import task_keys
from fewstep._train import UNSEEN
from fewstep.pages import image, note, table
from fewstep.runs.model import Model

EXPLANATION = (
    "Test classes that the model has not seen in training. The first line of an episode shows one image of each class; "
    "below, each query stands under the class the model took it for, with the probability it gave."
)


def example_episodes(model: Model, ways: int, shots: int, steps: int, count: int = 4) -> list[dict[str, Any]]:
    """Test episodes with the first whole seed's answers: images as PNG in base64, labels, and the label it gave."""
    learner, meta = model.built.make(ways), next(iter(model.whole.values()))
    tasks = model.built.problem.tasks(shots, 1, "test", ways)

    def one(data: Any, of_data: jax.Array, of_task: jax.Array) -> tuple[jax.Array, ...]:
        support, query = tasks.sample(data, of_data)
        adapted = learner.adapt(meta, of_task, support, steps)
        return support.x, query.x, query.y, jax.nn.softmax(learner.predict(meta, adapted, query.x))

    keys = task_keys(jax.random.fold_in(jax.random.key(0), UNSEEN), jnp.arange(count))
    every = jax.jit(lambda data, keys: jax.lax.map(lambda k: one(data, *k), keys), compiler_options=light())
    support, query, truth, sure = map(np.asarray, every(tasks.data, keys))
    return [
        {
            "classes": [png(x) for x in support[n, ::shots]],  # one image stands for its class
            "queries": [png(x) for x in query[n]],
            "truth": truth[n].tolist(),
            "answer": sure[n].argmax(-1).tolist(),
            "sure": np.round(sure[n].max(-1), 3).tolist(),
        }
        for n in range(count)
    ]


def episodes_html(episodes: list[dict[str, Any]]) -> Markup:
    """Episodes one after the other, and how many queries were right."""
    right = sum(a == t for e in episodes for a, t in zip(e["answer"], e["truth"], strict=True))
    total = sum(len(e["truth"]) for e in episodes)
    return note(f"{right} of {total} right.") + Markup().join(map(_episode, episodes))


def png(pixels: np.ndarray) -> str:
    """An image of numbers from 0 to 1 as PNG in base64."""
    from PIL import Image

    pixels = np.round(255 * pixels).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _episode(episode: dict[str, Any]) -> Markup:
    head = [image(data, f"class {n + 1}") for n, data in enumerate(episode["classes"])]
    return table(head, [[_answers(episode, number) for number in range(len(head))]])


def _answers(episode: dict[str, Any], number: int) -> Markup:
    """The queries that were taken for one class."""
    cells, line = [], Markup("<br>")
    for n, answer in enumerate(episode["answer"]):
        if answer == number:
            truth = episode["truth"][n]
            mark = "right" if truth == number else f"wrong: class {truth + 1}"
            cells.append(image(episode["queries"][n], f"query {n + 1}") + line + f"{mark}, {episode['sure'][n]:.0%}")
    return line.join(cells)
