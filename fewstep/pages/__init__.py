"""What reports are made of: figures without a screen, in one look."""

from fewstep.pages._drawing import COLORS as COLORS
from fewstep.pages._drawing import figure as figure
from fewstep.pages._drawing import svg as svg
