"""What reports are made of: parts of pages, in one look."""

from fewstep.pages._page import heading as heading
from fewstep.pages._page import image as image
from fewstep.pages._page import link as link
from fewstep.pages._page import note as note
from fewstep.pages._page import page as page
from fewstep.pages._page import panels as panels
from fewstep.pages._page import paragraph as paragraph
from fewstep.pages._page import table as table
