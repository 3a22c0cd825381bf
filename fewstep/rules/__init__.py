"""Rules by name, and the links they are made of."""

from collections.abc import Callable

from fewstep._rule import Rule
from fewstep.rules._cavia import cavia as cavia
from fewstep.rules._choice import adapt_all_but as adapt_all_but
from fewstep.rules._choice import adapt_only as adapt_only
from fewstep.rules._covariant import covariant as covariant
from fewstep.rules._curvature import curvature as curvature
from fewstep.rules._gap import gap as gap
from fewstep.rules._learned_loss import learned_loss as learned_loss
from fewstep.rules._mask import full_mask as full_mask
from fewstep.rules._mask import mask as mask
from fewstep.rules._metric import metric as metric
from fewstep.rules._proximal import fisher_diagonal as fisher_diagonal
from fewstep.rules._proximal import proximal as proximal
from fewstep.rules._rates import rates as rates
from fewstep.rules._sparse import sparse as sparse
from fewstep.rules._step import clip_norm as clip_norm
from fewstep.rules._step import optimizer as optimizer
from fewstep.rules._step import sgd as sgd
from fewstep.rules._step_norm import step_norm as step_norm
from fewstep.rules._step_rates import step_rates as step_rates
from fewstep.rules.alfa import alfa as alfa
from fewstep.rules.anil import anil as anil
from fewstep.rules.boil import boil as boil
from fewstep.rules.learned_optimizer import learned_optimizer as learned_optimizer
from fewstep.rules.maml import maml as maml
from fewstep.rules.mamlpp import mamlpp as mamlpp
from fewstep.rules.meta_lstm import meta_lstm as meta_lstm
from fewstep.rules.meta_sgd import meta_sgd as meta_sgd
from fewstep.rules.mnet import mnet as mnet
from fewstep.rules.mnet import mnet_full as mnet_full
from fewstep.rules.mtnet import mtnet as mtnet
from fewstep.rules.mtnet import mtnet_full as mtnet_full
from fewstep.rules.tnet import tnet as tnet

RULES: dict[str, Callable[..., Rule]] = {
    "maml": maml,
    "meta_sgd": meta_sgd,
    "anil": anil,
    "boil": boil,
    "tnet": tnet,
    "mnet": mnet,
    "mnet_full": mnet_full,
    "mtnet": mtnet,
    "mtnet_full": mtnet_full,
    "mamlpp": mamlpp,
    "alfa": alfa,
    "learned_optimizer": learned_optimizer,
    "meta_lstm": meta_lstm,
}
LINKS: dict[str, Callable[..., Rule]] = {
    "metric": metric,
    "mask": mask,
    "full_mask": full_mask,
    "rates": rates,
    "step_rates": step_rates,
    "step_norm": step_norm,
    "alfa": alfa,
    "learned_optimizer": learned_optimizer,
    "meta_lstm": meta_lstm,
    "learned_loss": learned_loss,
    "cavia": cavia,
    "covariant": covariant,
    "curvature": curvature,
    "gap": gap,
    "proximal": proximal,
    "sparse": sparse,
}
