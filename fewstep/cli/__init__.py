"""The command line: `fewstep COMMAND`; each command is a thin file. What is exported here serves commands of other
packages too: the entry-point group `fewstep.commands` adds them."""

from fewstep.cli._arguments import NO_HINT as NO_HINT
from fewstep.cli._budget import seconds_of as seconds_of
from fewstep.cli._main import main as main
from fewstep.cli._main import script as script
from fewstep.cli._progress import show_grid as show_grid
from fewstep.cli._progress import show_progress as show_progress
from fewstep.cli._show import print_json as print_json
from fewstep.cli._show import print_table as print_table
from fewstep.cli._show import say as say
from fewstep.cli._show import scores_table as scores_table
from fewstep.cli._show import watch_data as watch_data
