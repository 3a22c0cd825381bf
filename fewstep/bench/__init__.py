"""Speed and memory beside other libraries: the same problem for all, checked first, then measured in turns."""

from fewstep.bench._records import from_json as from_json
from fewstep.bench._report import HEAD as HEAD
from fewstep.bench._report import SWEEP_HEAD as SWEEP_HEAD
from fewstep.bench._report import remarks as remarks
from fewstep.bench._report import sweep_rows as sweep_rows
from fewstep.bench._report import table_rows as table_rows
from fewstep.bench._run import NAME as NAME
from fewstep.bench._run import Choice as Choice
from fewstep.bench._run import run as run
