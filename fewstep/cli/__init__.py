"""The command line: `fewstep COMMAND`; each command is a thin file."""

from fewstep.cli._main import main as main
from fewstep.cli._main import script as script
from fewstep.cli._progress import show_progress as show_progress
from fewstep.cli._show import scores_table as scores_table
