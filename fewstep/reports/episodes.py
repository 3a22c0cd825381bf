"""Example episodes of images, with a model's answers: drawn from test classes, shown as HTML."""

import base64
import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from fewstep._outer import task_keys
from fewstep._streams import UNSEEN
from fewstep.compute import light
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
            "classes": [png(image) for image in support[n, ::shots]],  # one image stands for its class
            "queries": [png(image) for image in query[n]],
            "truth": truth[n].tolist(),
            "answer": sure[n].argmax(-1).tolist(),
            "sure": np.round(sure[n].max(-1), 3).tolist(),
        }
        for n in range(count)
    ]


def episodes_html(episodes: list[dict[str, Any]]) -> str:
    """Episodes one after the other, and how many queries were right."""
    right = sum(a == t for e in episodes for a, t in zip(e["answer"], e["truth"], strict=True))
    total = sum(len(e["truth"]) for e in episodes)
    return f"<p class=note>{right} of {total} right.</p>" + "".join(map(_episode, episodes))


def png(image: np.ndarray) -> str:
    """An image of numbers from 0 to 1 as PNG in base64."""
    pixels = np.round(255 * image).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _episode(episode: dict[str, Any]) -> str:
    head = "".join(f"<th>{_image(data, f'class {n + 1}')}</th>" for n, data in enumerate(episode["classes"]))
    columns = [_answers(episode, number) for number in range(len(episode["classes"]))]
    return f"<div class=wide><table><tr>{head}</tr><tr>{''.join(columns)}</tr></table></div>"


def _answers(episode: dict[str, Any], number: int) -> str:
    """The queries that were taken for one class."""
    told = []
    for n, answer in enumerate(episode["answer"]):
        if answer == number:
            truth = episode["truth"][n]
            mark = "right" if truth == number else f"wrong: class {truth + 1}"
            told.append(f"{_image(episode['queries'][n], f'query {n + 1}')}<br>{mark}, {episode['sure'][n]:.0%}")
    return f"<td>{'<br>'.join(told)}</td>"


def _image(data: str, alt: str) -> str:
    return f'<img src="data:image/png;base64,{data}" alt="{alt}" width=44 height=44>'
