"""Files and folders: written whole or not at all, locked, and a user's own Python files."""

from fewstep.files._archive import archive_kind as archive_kind
from fewstep.files._archive import read_archive as read_archive
from fewstep.files._archive import write_archive as write_archive
from fewstep.files._cache import cache as cache
from fewstep.files._disk import LOCK as LOCK
from fewstep.files._disk import empty as empty
from fewstep.files._disk import is_locked as is_locked
from fewstep.files._disk import locked as locked
from fewstep.files._disk import writing as writing
from fewstep.files._files import JSON as JSON
from fewstep.files._files import finite as finite
from fewstep.files._files import new_file as new_file
from fewstep.files._files import read_json as read_json
from fewstep.files._files import write_json as write_json
from fewstep.files._files import write_text as write_text
from fewstep.files._old import forget_old as forget_old
from fewstep.files._old import mark_used as mark_used
from fewstep.files._user import called as called
from fewstep.files._user import file_of as file_of
from fewstep.files._user import find_object as find_object
from fewstep.files._user import function_of as function_of
from fewstep.files._user import object_of as object_of
