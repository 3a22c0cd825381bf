"""A random task of texts: of a run's test classes if its texts are here, else of a few sentences of ours."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders import Item
from fewstep.problems._kind import Facts, Problem

_SENTENCES = {
    "weather": (
        "will I need an umbrella this afternoon", "how cold does it get tonight", "is the sun out in Lisbon",
        "should I expect snow at the weekend", "what is the forecast for Friday", "is it windy on the coast",
    ),
    "alarm": (
        "wake me at half past six", "set an alarm for noon", "turn off tomorrow's alarm",
        "move my alarm ten minutes later", "which alarms are on for Monday", "ring again in a quarter of an hour",
    ),
    "music": (
        "play something calm", "put on that new album", "skip this song", "who is singing here",
        "add this tune to my running playlist", "turn the volume of the song down",
    ),
    "cooking": (
        "how long do I boil an egg", "what can I bake with two apples", "find a soup without cream",
        "can I replace butter with oil", "at which heat do I roast carrots", "how much salt goes into the dough",
    ),
    "travel": (
        "when does the next train to Bergen leave", "book a seat on the train to Rome", "find a room near the harbor",
        "do I have to change on the way to the airport", "is my flight late", "how much is a day ticket for the bus",
    ),
}  # fmt: skip


def text_example(problem: Problem, max_shots: int) -> Callable[[int, int], Facts]:
    """A function of a seed and a number of shots that draws a task of texts, with one more text of each class."""
    items, ways = problem.details.items, problem.ways or len(_SENTENCES)

    def example(seed: int, shots: int) -> Facts:
        classes: Mapping[str, Sequence[Item]] = items.load("test") if items.here() else _SENTENCES
        usable = [name for name, own in classes.items() if len(own) > shots]
        if len(usable) < 2:
            longest = max(map(len, classes.values())) - 1
            fact = f"At most {longest} shots can be drawn from the texts of the model, and {shots} were asked for"
            raise FewstepError(f"{fact}. Ask for fewer.", code="does_not_fit")
        random = np.random.default_rng(seed)
        names = [usable[n] for n in random.permutation(len(usable))[:ways]]
        drawn = [[classes[name][n] for n in random.permutation(len(classes[name]))[: shots + 1]] for name in names]
        support = {
            "x": [text for own in drawn for text in own[:-1]],
            "labels": [name for name in names for _ in range(shots)],
        }
        return {"support": support, "query": {"x": [own[-1] for own in drawn], "labels": names}}

    return example
