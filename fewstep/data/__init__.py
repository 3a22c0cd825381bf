"""Images: where they come from, how they are checked, split and cached.

`DATA_SETS` is the table of image sets, `info(tasks)` its line for some tasks.
"""

from fewstep.data._catalog import DATA_SETS as DATA_SETS
from fewstep.data._catalog import SOURCES as SOURCES
from fewstep.data._catalog import DataSet as DataSet
from fewstep.data._catalog import Source as Source
from fewstep.data._catalog import info as info
from fewstep.data._catalog import source as source
from fewstep.data._decode import SUFFIXES as SUFFIXES
from fewstep.data._decode import UnreadableImage as UnreadableImage
from fewstep.data._decode import decode as decode
from fewstep.data._decode import decode_file as decode_file
from fewstep.data._load import count as count
from fewstep.data._load import load as load
from fewstep.data._load import pin as pin
from fewstep.data._places import folders as folders
from fewstep.data._places import images_at as images_at
from fewstep.data._places import look_in as look_in
from fewstep.data._places import on_progress as on_progress
from fewstep.data._places import progress as progress
from fewstep.data._places import say as say
from fewstep.data._set import Classes as Classes
from fewstep.data._set import ImageSet as ImageSet
from fewstep.data._set import RowSet as RowSet
from fewstep.data._set import make_rows as make_rows
from fewstep.data._set import make_set as make_set
from fewstep.data._set import split_classes as split_classes
from fewstep.data._sources import check as check
from fewstep.data._sources import find as find
from fewstep.data._sources import get as get
from fewstep.data._tree import open_tree as open_tree
from fewstep.data._tree import read_tree as read_tree
from fewstep.data._walk import describe_skipped as describe_skipped
from fewstep.data._walk import is_image as is_image
from fewstep.data._walk import walk as walk
from fewstep.data._warp import warp as warp
from fewstep.data.texts import Texts as Texts
from fewstep.data.texts import read_texts as read_texts
from fewstep.data.texts import text_classes as text_classes
