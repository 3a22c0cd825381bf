"""Speed and memory beside other libraries: the same problem for all, checked first, then measured in turns."""

from fewstep_studies.bench._records import from_json as from_json
from fewstep_studies.bench._report import HEAD as HEAD
from fewstep_studies.bench._report import SWEEP_HEAD as SWEEP_HEAD
from fewstep_studies.bench._report import remarks as remarks
from fewstep_studies.bench._report import sweep_rows as sweep_rows
from fewstep_studies.bench._report import table_rows as table_rows
from fewstep_studies.bench._run import NAME as NAME
from fewstep_studies.bench._run import Choice as Choice
from fewstep_studies.bench._run import run as run
