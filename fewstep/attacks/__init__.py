"""Attacks on learners: perturbed queries and poisoned supports. Each is a factory of an `Attack`, by name."""

from collections.abc import Callable

from fewstep.attacks._attack import OBJECTIVES as OBJECTIVES
from fewstep.attacks._attack import Attack as Attack
from fewstep.attacks._attack import Budget as Budget
from fewstep.attacks._attack import Objective as Objective
from fewstep.attacks._attack import cross_entropy as cross_entropy
from fewstep.attacks._attack import dlr as dlr
from fewstep.attacks._attack import margin as margin
from fewstep.attacks._attack import squared_error as squared_error
from fewstep.attacks._ball import size_of as size_of
from fewstep.attacks.apgd import apgd as apgd
from fewstep.attacks.apgd import targeted as targeted
from fewstep.attacks.checks import Check as Check
from fewstep.attacks.checks import check_learner as check_learner
from fewstep.attacks.checks import check_result as check_result
from fewstep.attacks.cw import cw as cw
from fewstep.attacks.deepfool import deepfool as deepfool
from fewstep.attacks.evaluation import CLEAN as CLEAN
from fewstep.attacks.evaluation import WORST as WORST
from fewstep.attacks.evaluation import Robustness as Robustness
from fewstep.attacks.evaluation import Setting as Setting
from fewstep.attacks.evaluation import attack_queries as attack_queries
from fewstep.attacks.evaluation import attack_supports as attack_supports
from fewstep.attacks.one_pixel import one_pixel as one_pixel
from fewstep.attacks.pgd import fgsm as fgsm
from fewstep.attacks.pgd import ifgsm as ifgsm
from fewstep.attacks.pgd import least_likely as least_likely
from fewstep.attacks.pgd import pgd as pgd
from fewstep.attacks.poison import flip_labels as flip_labels
from fewstep.attacks.poison import poison as poison
from fewstep.attacks.poison import poison_rows as poison_rows
from fewstep.attacks.spatial import spatial as spatial
from fewstep.attacks.square import square as square
from fewstep.attacks.universal import universal as universal

# In the spirit of AutoAttack: two gradient ascents and one search without a gradient, at a CPU's price or at its own.
STANDARD: dict[str, Callable[[], Attack]] = {
    "apgd": lambda: apgd(20), "targeted": lambda: targeted(20), "square": lambda: square(500),
}  # fmt: skip
THOROUGH: dict[str, Callable[[], Attack]] = {
    "apgd": lambda: apgd(100), "targeted": lambda: targeted(100), "square": lambda: square(5000),
}  # fmt: skip
ATTACKS: dict[str, Callable[..., Attack]] = {
    "fgsm": fgsm, "ifgsm": ifgsm, "least_likely": least_likely, "pgd": pgd, "apgd": apgd, "targeted": targeted,
    "cw": cw, "deepfool": deepfool, "universal": universal, "one_pixel": one_pixel, "square": square,
    "spatial": spatial,
}  # fmt: skip
