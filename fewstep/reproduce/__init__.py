"""Published results, each as one command: the paper's table beside ours."""

from fewstep.reproduce import depth as depth
from fewstep.reproduce import more_steps as more_steps
from fewstep.reproduce import omniglot as omniglot
from fewstep.reproduce import out_of_range as out_of_range
from fewstep.reproduce import photographs as photographs
from fewstep.reproduce import polynomial as polynomial
from fewstep.reproduce import random_start as random_start
from fewstep.reproduce import sinusoid as sinusoid
from fewstep.reproduce import step_size as step_size
from fewstep.reproduce._report import HEAD as HEAD
from fewstep.reproduce._report import UNFINISHED as UNFINISHED
from fewstep.reproduce._report import cost_table as cost_table
from fewstep.reproduce._report import table_rows as table_rows
from fewstep.reproduce._report import unfinished_rows as unfinished_rows
from fewstep.reproduce._run import Watch as Watch
from fewstep.reproduce._run import reproduce as reproduce
from fewstep.reproduce._study import QUICK as QUICK
from fewstep.reproduce._study import Cell as Cell
from fewstep.reproduce._study import Scale as Scale
from fewstep.reproduce._study import Study as Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        sinusoid.STUDY, step_size.STUDY, polynomial.STUDY, omniglot.STUDY, photographs.CIFAR_STUDY,
        photographs.MINI_STUDY, more_steps.STUDY, depth.STUDY, random_start.STUDY,
        out_of_range.STUDY,
    )
}  # fmt: skip
