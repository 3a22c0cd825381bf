"""Tables of many small data sets: read, split by task, brought to a network's scale and back."""

from fewstep.tables._column import Column as Column
from fewstep.tables._frame import Frame as Frame
from fewstep.tables._frame import read as read
from fewstep.tables._schema import Schema as Schema
from fewstep.tables._table import SPLITS as SPLITS
from fewstep.tables._table import Asked as Asked
from fewstep.tables._table import Rows as Rows
from fewstep.tables._table import Table as Table
from fewstep.tables._table import check_sizes as check_sizes
from fewstep.tables._table import encode as encode
from fewstep.tables._table import make_table as make_table
from fewstep.tables._table import split_tasks as split_tasks
