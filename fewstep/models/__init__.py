"""Trained models as values: `learn` and `answer`, calibration, evaluation, and files of them."""

from fewstep.models._adaptation import LEVEL as LEVEL
from fewstep.models._adaptation import Adaptation as Adaptation
from fewstep.models._adaptation import adapt as adapt
from fewstep.models._adaptation import calibrated as calibrated
from fewstep.models._adaptation import check_rows as check_rows
from fewstep.models._calibration import LEVELS as LEVELS
from fewstep.models._calibration import Calibration as Calibration
from fewstep.models._calibration import calibrate as calibrate
from fewstep.models._calibration import coverage as coverage
from fewstep.models._calibration import each_left_out as each_left_out
from fewstep.models._evaluate import calibrate_model as calibrate_model
from fewstep.models._evaluate import evaluate_model as evaluate_model
from fewstep.models._evaluate import evaluate_places as evaluate_places
from fewstep.models._fit import fit_model as fit_model
from fewstep.models._fit import kept_metas as kept_metas
from fewstep.models._model import Info as Info
from fewstep.models._model import LogLine as LogLine
from fewstep.models._model import Members as Members
from fewstep.models._model import Model as Model
from fewstep.models._model import answer as answer
from fewstep.models._model import learn as learn
from fewstep.models._save import arrays_of as arrays_of
from fewstep.models._save import load_model as load_model
from fewstep.models._save import load_pretrained as load_pretrained
from fewstep.models._save import pretrained as pretrained
from fewstep.models._save import save_model as save_model
