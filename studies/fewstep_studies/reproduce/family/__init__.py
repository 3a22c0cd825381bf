"""The family: every rule on sine waves, ten on CIFAR-FS, with what a step of each needs and takes."""

from fewstep_studies.reproduce._study import Study
from fewstep_studies.reproduce.family._cells import FamilyOptions, cells
from fewstep_studies.reproduce.family._measure import RUNNER
from fewstep_studies.reproduce.family._tables import figures, rows, tables

STUDY = Study(
    "family", RUNNER, cells, rows, figures, full=FamilyOptions(seeds=3, steps=5000),
    quick=FamilyOptions(seeds=1, steps=200, n_tasks=20, minutes=0.1, quick=True), paper={"n_tasks": 600, "steps": 5000},
    free=("only",), either=("minutes",), places=("data_dir",), tables=tables,
)  # fmt: skip
