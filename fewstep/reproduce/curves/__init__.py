"""Many small real data sets, learned from 3, 5 and 10 points each: our rules beside strong and simple baselines."""

from fewstep.reproduce.curves._run import NAME as NAME
from fewstep.reproduce.curves._run import QUICK as QUICK
from fewstep.reproduce.curves._run import Scale as Scale
from fewstep.reproduce.curves._run import reproduce as reproduce
from fewstep.reproduce.curves._tables import tables as tables
