"""One gradient step can express any learner: the construction of Finn & Levine, built and checked.

`construct(target, Plan(bins=8))` builds the network; `checks` measures what the proof says of it.
"""

from fewstep.universality._target import Target as Target
from fewstep.universality._target import evaluate as evaluate
from fewstep.universality.construct import Construction as Construction
from fewstep.universality.construct import construct as construct
from fewstep.universality.plan import Plan as Plan
from fewstep.universality.targets import nearest_neighbor as nearest_neighbor
from fewstep.universality.targets import ridge as ridge
from fewstep.universality.targets import target_of as target_of
