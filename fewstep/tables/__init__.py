"""Tables of many small data sets: read, split by task, brought to a network's scale and back."""

from fewstep.tables._column import Cells as Cells
from fewstep.tables._column import Column as Column
from fewstep.tables._column import read_cells as read_cells
from fewstep.tables._frame import Frame as Frame
from fewstep.tables._frame import read as read
from fewstep.tables._outliers import Treated as Treated
from fewstep.tables._outliers import check_outliers as check_outliers
from fewstep.tables._outliers import treat as treat
from fewstep.tables._outside import outside as outside
from fewstep.tables._schema import Schema as Schema
from fewstep.tables._schema import clamped as clamped
from fewstep.tables._table import SPLITS as SPLITS
from fewstep.tables._table import Roles as Roles
from fewstep.tables._table import Rows as Rows
from fewstep.tables._table import Table as Table
from fewstep.tables._table import check_sizes as check_sizes
from fewstep.tables._table import encode as encode
from fewstep.tables._table import make_table as make_table
from fewstep.tables._table import split_tasks as split_tasks
from fewstep.tables._table import task_names as task_names
from fewstep.tables._tasks import draw_episode as draw_episode
from fewstep.tables._tasks import row_arrays as row_arrays
from fewstep.tables._tasks import table_tasks as table_tasks
from fewstep.tables._tasks import whole_tasks as whole_tasks
