"""The form of requests and answers: they are decoded, checked and described by these."""

from typing import Annotated

import msgspec
from msgspec import Meta

MAX_SHOTS = 100  # of a random task
encode = msgspec.json.Encoder().encode

# Rows of numbers: points, or images of up to three axes. Spelled out, so that nothing nested deeper is ever built.
Row = list[float | list[float | list[float]]]
Rows = Annotated[list[float | Row], Meta(description="One entry per row: a number, or a list of numbers.")]
Inputs = Annotated[
    list[float | str | Row],
    Meta(description="One entry per row: a number, a list of numbers, an image as nested lists; for texts, a text."),
]
Text = Annotated[str, Meta(max_length=200)]
Names = Annotated[list[Text | int], Meta(description="The class of each image or text.")]
Pictures = Annotated[list[str], Meta(description="Images in base64: PNG, or a data URL of one.")]
Columns = Annotated[
    dict[str, list[float | Text | None]],
    Meta(description="For a model of tables: columns by name, one cell per row."),
]
Steps = Annotated[int, Meta(ge=0, le=1_000_000, description="Gradient steps; as in training by default.")]
Pace = Annotated[float, Meta(ge=0.1, le=10, description="Multiplies the step size.")]
Seed = Annotated[int, Meta(ge=0, lt=2**31, description="Seed of the masks.")]
Samples = Annotated[int, Meta(ge=1, le=1_000_000, description="Mask samples; the model's own number by default.")]

LossBefore = Annotated[float | msgspec.UnsetType, Meta(description="Absent for a learner without inner steps.")]
Warnings = Annotated[
    list[str] | None, Meta(description="Values of a table that lie far outside those of the training tasks.")
]


Unknown = Annotated[
    list[bool] | None,
    Meta(description="Whether each row fits none of the classes; for runs on features of an encoder that can tell."),
]


class Support(msgspec.Struct, forbid_unknown_fields=True):
    """The examples of a task."""

    x: Inputs | None = None
    y: Rows | None = None
    images: Pictures | None = None
    labels: Names | None = None
    columns: Columns | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """Where to predict."""

    x: Inputs | None = None
    images: Pictures | None = None
    columns: Columns | None = None


class AdaptRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Learn a task."""

    support: Support
    steps: Steps | None = None
    pace: Pace = 1.0
    seed: Seed = 0
    samples: Samples | None = None
    detail: bool = False


class PredictRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Predict with an adapter, or from a support set in the same request."""

    query: Query
    adapter: Text | None = None
    support: Support | None = None
    steps: Steps | None = None
    pace: Pace | None = None
    seed: Seed | None = None
    samples: Samples | None = None
    detail: bool = False


class TaskRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Ask for a random task that training never saw."""

    seed: Seed = 0
    shots: Annotated[int, Meta(ge=1, le=MAX_SHOTS)] | None = None


class Layer(msgspec.Struct):
    """What adapting did to a layer."""

    name: str
    moved: Annotated[float, Meta(description="Change of its weights: root mean square, relative to the weights'.")]
    mask: Annotated[list[float] | None, Meta(description="How much each unit may move, mean over samples.")] = None


class Detail(msgspec.Struct):
    """What adapting did to each layer."""

    layers: list[Layer]


class AdaptResponse(msgspec.Struct):
    """A task was learned."""

    adapter: str
    expires_in: Annotated[float, Meta(description="Seconds that the adapter stays without being used.")]
    loss_after: float
    milliseconds: float
    loss_before: LossBefore = msgspec.UNSET
    classes: list[str] | None = None
    detail: Detail | None = None
    warnings: Warnings = None


class PredictResponse(msgspec.Struct):
    """Predictions, one row for each row of the query."""

    y: list[list[float]]
    loss_after: float
    milliseconds: float
    loss_before: LossBefore = msgspec.UNSET
    low: list[list[float]] | None = None
    high: list[list[float]] | None = None
    probabilities: list[list[float]] | None = None
    unknown: Unknown = None
    classes: list[str] | None = None
    detail: Detail | None = None
    warnings: Warnings = None


class Curve(msgspec.Struct):
    """A curve to draw: y over x."""

    x: list[float]
    y: list[float]


class Points(msgspec.Struct, omit_defaults=True):
    """Points of a curve, or images or texts with their classes."""

    x: list[list[float] | str] | None = None
    y: list[list[float]] | None = None
    images: list[str] | None = None
    labels: list[str] | None = None


class TaskResponse(msgspec.Struct, omit_defaults=True):
    """A random task: of curves with the curve itself, of images and texts with others to recognize."""

    support: Points
    curve: Curve | None = None
    query: Points | None = None


class LayerSize(msgspec.Struct):
    """A layer of a model."""

    name: str
    units: int


class ModelLimits(msgspec.Struct):
    """How much a task of a model may ask for."""

    points: int
    queries: int
    steps: int
    samples: int
    work: int
    ways: int


class ModelDescription(msgspec.Struct):
    """A model as clients see it; null is what does not apply to it."""

    name: str
    kind: str
    rule: str
    tasks: str
    x_width: int
    y_width: int
    image: tuple[int, ...] | None
    ways: int | None
    shots: int
    inner_steps: int
    inner_lr: float | None
    steps_trained: int
    seeds: int
    metric: str
    x_range: object
    y_range: object
    masked: bool
    layers: list[LayerSize]
    columns: object
    limits: ModelLimits
    trained: dict[str, object]


class RunSummary(msgspec.Struct):
    """A run in the watched folder."""

    name: str
    rule: str
    tasks: str
    step: int
    steps: int
    training: bool
    metric: str


class LogRow(msgspec.Struct):
    """A row of a run's log; null is a number that was not measured or is not finite."""

    step: int
    seed: int
    loss: float | None
    validation: float | None


class RunLog(msgspec.Struct):
    """The log of a run."""

    name: str
    rows: list[LogRow]


class ErrorInfo(msgspec.Struct):
    """Why not."""

    code: str
    message: str


class ErrorResponse(msgspec.Struct):
    """The answer to every request that is refused."""

    error: ErrorInfo


def schemas() -> dict[str, dict[str, object]]:
    """The JSON schemas, by name."""
    types = [AdaptRequest, PredictRequest, TaskRequest, AdaptResponse, PredictResponse, TaskResponse, ErrorResponse]
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return dict(components)
