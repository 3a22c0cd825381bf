"""Speed and memory beside other libraries: the same problem for all, checked first, then measured in turns."""

from fewstep.bench._report import GROWN as GROWN
from fewstep.bench._report import HEAD as HEAD
from fewstep.bench._report import grown_rows as grown_rows
from fewstep.bench._report import remarks as remarks
from fewstep.bench._report import table_rows as table_rows
from fewstep.bench._run import NAME as NAME
from fewstep.bench._run import Options as Options
from fewstep.bench._run import run as run
