"""Which of several methods a model was chosen from, and by what."""

import math
from typing import NamedTuple

from fewstep.files import JSON


class Trial(NamedTuple):
    """A method that was tried: to which of its steps, and its lowest error there on the validation tasks; infinite if
    it diverged."""

    method: str
    step: int
    steps: int
    error: float

    @property
    def words(self) -> str:
        """The method and its error."""
        return f"{self.method} {self.error:.3g}" if math.isfinite(self.error) else f"{self.method} diverged"


class Choice(NamedTuple):
    """The method that is kept, and all that were tried, in the order they were named."""

    method: str
    trials: tuple[Trial, ...]

    @property
    def sentence(self) -> str:
        """What was chosen from what, in words."""
        others = [trial for trial in self.trials if trial.method != self.method]
        early = [trial.words for trial in others if trial.step < trial.steps]
        groups = [", ".join(trial.words for trial in others if trial.step == trial.steps)]
        groups += [f"stopped early: {', '.join(early)}"] if early else []
        kept = next(trial for trial in self.trials if trial.method == self.method)
        rest = "; ".join(filter(None, groups))
        return f"Chosen by the error on the validation tasks: {kept.words}{f' ({rest})' if rest else ''}."

    def to_json(self) -> JSON:
        """It as JSON has it: no error where a method diverged."""
        error = lambda trial: trial.error if math.isfinite(trial.error) else None
        trials = [{**trial._asdict(), "error": error(trial)} for trial in self.trials]
        return {"method": self.method, "trials": trials}

    @staticmethod
    def from_json(facts: JSON) -> "Choice":
        """What `to_json` gave."""
        error = lambda trial: math.inf if trial["error"] is None else float(trial["error"])
        trials = [Trial(t["method"], int(t["step"]), int(t["steps"]), error(t)) for t in facts["trials"]]
        return Choice(facts["method"], tuple(trials))
