"""Kinds of problems, one module each: what a task is, how a user's data become tasks, and how answers go back.

`kind_of(tasks)` finds the `Kind` that TASKS name: `sinusoid`, `omniglot`, `folder:PATH`, `table:PATH`, or your own as
`FILE.py:NAME`, where NAME is a `Kind` or a function that makes `Tasks`.
"""

from fewstep.problems._base import by_fold as by_fold
from fewstep.problems._baselines import BASELINES as BASELINES
from fewstep.problems._baselines import compare as compare
from fewstep.problems._drawing import draw_tasks as draw_tasks
from fewstep.problems._episodes import EXPLANATION as EXPLANATION
from fewstep.problems._episodes import ExampleEpisode as ExampleEpisode
from fewstep.problems._episodes import episodes_html as episodes_html
from fewstep.problems._episodes import example_episodes as example_episodes
from fewstep.problems._find import KINDS as KINDS
from fewstep.problems._find import kind as kind
from fewstep.problems._find import kind_of as kind_of
from fewstep.problems._held_out import Answers as Answers
from fewstep.problems._held_out import TaskScore as TaskScore
from fewstep.problems._held_out import answer_tasks as answer_tasks
from fewstep.problems._held_out import concatenate as concatenate
from fewstep.problems._held_out import draws_of as draws_of
from fewstep.problems._held_out import half_width as half_width
from fewstep.problems._held_out import moments as moments
from fewstep.problems._held_out import score_answers as score_answers
from fewstep.problems._held_out import target_scores as target_scores
from fewstep.problems._kind import Answer as Answer
from fewstep.problems._kind import Cell as Cell
from fewstep.problems._kind import Facts as Facts
from fewstep.problems._kind import Fields as Fields
from fewstep.problems._kind import Given as Given
from fewstep.problems._kind import Kind as Kind
from fewstep.problems._kind import Part as Part
from fewstep.problems._kind import Plan as Plan
from fewstep.problems._kind import Problem as Problem
from fewstep.problems._kind import Say as Say
from fewstep.problems._kind import Sketch as Sketch
from fewstep.problems._kind import Written as Written
from fewstep.problems._options import CHANGES as CHANGES
from fewstep.problems._options import HIDDEN as HIDDEN
from fewstep.problems._options import Options as Options
from fewstep.problems._options import Value as Value
from fewstep.problems._options import Values as Values
from fewstep.problems._options import fill as fill
from fewstep.problems._options import from_signature as from_signature
from fewstep.problems._options import option as option
from fewstep.problems._options import without as without
from fewstep.problems._own import OwnNetwork as OwnNetwork
from fewstep.problems._own import is_own as is_own
from fewstep.problems._points import Perceptron as Perceptron
from fewstep.problems._points import points_problem as points_problem
from fewstep.problems._probability import best_temperature as best_temperature
from fewstep.problems._probability import class_scores as class_scores
from fewstep.problems._probability import reliability as reliability
from fewstep.problems._probability import task_errors as task_errors
from fewstep.problems._probability import tempered as tempered
from fewstep.problems._rows import ScoreRow as ScoreRow
from fewstep.problems._table_options import TableOptions as TableOptions
from fewstep.problems._table_options import roles_of as roles_of
from fewstep.problems._table_pictures import Curve as Curve
from fewstep.problems._table_pictures import choose_rows as choose_rows
from fewstep.problems._table_pictures import curve_of as curve_of
from fewstep.problems._table_pictures import draw_curve as draw_curve
from fewstep.problems._table_pictures import running as running
from fewstep.problems.tables import IN_MEMORY as IN_MEMORY
from fewstep.problems.tables import problem_of_rows as problem_of_rows
from fewstep.problems.tables import read_frame as read_frame
from fewstep.problems.tables import with_fitted_base as with_fitted_base
