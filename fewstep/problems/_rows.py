"""A row of scores: what was measured of a model on unseen tasks."""

import dataclasses

from fewstep.files import JSON


@dataclasses.dataclass(frozen=True)
class ScoreRow:
    """The score after so many shots and inner steps, with its 95% interval over tasks; `None` does not apply."""

    split: str
    shots: int
    inner_steps: int | None
    metric: str
    mean: float
    interval95: float
    n_tasks: int
    median: float | None = None
    seeds: int | None = None
    seed_std: float | None = None
    diverged_tasks: int | None = None
    diverged_seeds: int | None = None
    coverage90: float | None = None
    log_loss: float | None = None
    auc: float | None = None
    ece: float | None = None
    auroc: float | None = None  # of queries of the task's classes against those of others
    ways: int | None = None
    queries: int | None = None
    norm: str | None = None
    targets: dict[str, float] | None = None  # the error of each of several, in its own unit

    def to_json(self) -> dict[str, JSON]:
        """The row as an object for machines, without what does not apply."""
        always = ("inner_steps", "mean", "interval95")
        values = {name: v for name, v in dataclasses.asdict(self).items() if v is not None or name in always}
        return values | ({"transductive": self.norm == "transductive"} if self.norm else {})
