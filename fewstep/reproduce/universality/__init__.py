"""The universality of one gradient step, built, measured and drawn, as one command.

Reference: Finn & Levine, Meta-Learning and Universality: Deep Representations and Gradient Descent can Approximate any
Learning Algorithm, ICLR 2018.
"""

from fewstep.reproduce.universality._report import HEAD as HEAD
from fewstep.reproduce.universality._report import table_rows as table_rows
from fewstep.reproduce.universality._run import NAME as NAME
from fewstep.reproduce.universality._run import QUICK as QUICK
from fewstep.reproduce.universality._run import Scale as Scale
from fewstep.reproduce.universality._run import reproduce as reproduce
