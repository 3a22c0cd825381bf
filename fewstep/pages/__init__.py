"""What reports are made of: parts of pages and figures, in one look."""

from fewstep.pages._drawing import COLORS as COLORS
from fewstep.pages._drawing import figure as figure
from fewstep.pages._drawing import svg as svg
from fewstep.pages._page import beside as beside
from fewstep.pages._page import heading as heading
from fewstep.pages._page import image as image
from fewstep.pages._page import link as link
from fewstep.pages._page import note as note
from fewstep.pages._page import page as page
from fewstep.pages._page import panels as panels
from fewstep.pages._page import paragraph as paragraph
from fewstep.pages._page import table as table
