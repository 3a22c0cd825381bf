"""Published results, each as one command: the paper's table beside ours."""

from fewstep_studies.reproduce import (
    curves,
    depth,
    family,
    five_steps,
    layerwise,
    more_steps,
    neural_processes,
    omniglot,
    out_of_range,
    photographs,
    polynomial,
    pretrained,
    random_start,
    sinusoid,
    step_size,
    universality,
)
from fewstep_studies.reproduce._figure import Figure as Figure
from fewstep_studies.reproduce._figure import style as style
from fewstep_studies.reproduce._figure import write_figure as write_figure
from fewstep_studies.reproduce._report import made_by as made_by
from fewstep_studies.reproduce._report import main_table as main_table
from fewstep_studies.reproduce._report import tables_of as tables_of
from fewstep_studies.reproduce._rows import Result as Result
from fewstep_studies.reproduce._rows import Row as Row
from fewstep_studies.reproduce._rows import as_json as as_json
from fewstep_studies.reproduce._rows import read_record as read_record
from fewstep_studies.reproduce._run import Watch as Watch
from fewstep_studies.reproduce._run import made_with as made_with
from fewstep_studies.reproduce._run import reproduce as reproduce
from fewstep_studies.reproduce._study import AnyStudy as AnyStudy
from fewstep_studies.reproduce._study import Cell as Cell
from fewstep_studies.reproduce._study import ImageOptions as ImageOptions
from fewstep_studies.reproduce._study import Options as Options
from fewstep_studies.reproduce._study import Results as Results
from fewstep_studies.reproduce._study import Study as Study
from fewstep_studies.reproduce._study import Table as Table
from fewstep_studies.reproduce._study import TrainingOptions as TrainingOptions

STUDIES: dict[str, AnyStudy] = {
    study.name: study
    for study in (
        sinusoid.STUDY, step_size.STUDY, polynomial.STUDY, omniglot.STUDY, photographs.CIFAR_STUDY,
        photographs.MINI_STUDY, more_steps.STUDY, five_steps.STUDY, depth.STUDY, random_start.STUDY, out_of_range.STUDY,
        layerwise.STUDY, universality.STUDY, curves.STUDY, neural_processes.STUDY, pretrained.STUDY, family.STUDY,
    )
}  # fmt: skip
