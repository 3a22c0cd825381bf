"""How good a learner is: scores on fresh tasks, and on fixed ones while it trains."""

from fewstep.evaluation._evaluate import Score as Score
from fewstep.evaluation._evaluate import evaluate as evaluate
from fewstep.evaluation._evaluate import make_evaluate as make_evaluate
from fewstep.evaluation._evaluate import summarize as summarize
from fewstep.evaluation._validate import Validate as Validate
from fewstep.evaluation._validate import make_validate as make_validate
