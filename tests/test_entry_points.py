"""Names that an installed package offers by entry points, beside ours and FILE.py:NAME."""

import pytest

from fewstep import Experiment, FewstepError
from fewstep.experiments import build

MODULE = """
import fewstep
from fewstep import losses, networks, rules, tasks

def slow(start=0.01, *, share: float = 0.5):
    return rules.rates(start * share)

def learner(network, loss, *, inner_steps: int = 2):
    return fewstep.gradient_learner(network, rules.maml(0.01), loss, steps=inner_steps)

def waves(shots, queries, *, loud: float = 1.0):
    return tasks.sinusoid(shots, queries, amplitude=(loud, loud))

def small(x, outputs):
    return networks.mlp(x.shape[1], outputs, hidden=(3,))

def outer(learner):
    return fewstep.first_order(learner)
"""
ENTRIES = """
[fewstep.rules]
slow = offered:slow
[fewstep.learners]
pupil = offered:learner
[fewstep.tasks]
waves = offered:waves
[fewstep.networks]
small = offered:small
[fewstep.losses]
bent = fewstep.losses:huber
[fewstep.outers]
plain = offered:outer
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "offered.py").write_text(MODULE)
    folder = tmp_path / "offered-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("package")
def test_every_name_may_be_that_of_an_installed_package():
    built = build(Experiment("mtnet+slow", "waves", network="small", loss="bent", outer="plain", loud=2.0, share=0.3))
    assert [layer.width for layer in built.network.layers] == [3, 1]
    assert "rates" in built.rule.name
    assert build(Experiment("pupil", "sinusoid", inner_steps=3)).inner_steps == 3


def test_names_that_no_package_offers_are_unknown():
    for options in ({"method": "slow"}, {"tasks": "waves"}):
        with pytest.raises(FewstepError, match="Unknown"):
            Experiment(**({"method": "maml", "tasks": "sinusoid"} | options))
