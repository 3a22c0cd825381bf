"""Names and commands that an installed package offers by entry points, beside ours and FILE.py:NAME."""

from importlib import metadata

import pytest

from fewstep import Experiment, FewstepError
from fewstep.cli import _commands, main
from fewstep.experiments import build

MODULE = """
import dataclasses
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

@dataclasses.dataclass(frozen=True)
class Greet:
    '''Greet somebody.'''

    loud: bool = False
    '''With emphasis.'''

    def __call__(self):
        print("HELLO" if self.loud else "hello")
        return 3

def greet_for(words):
    if "--quiet" not in words:
        return Greet
    return dataclasses.make_dataclass("Quiet", [("quiet", bool, False)], namespace={"__call__": lambda self: 4})
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
[fewstep.commands]
greet = offered:Greet
greet-some = offered:greet_for
train = offered:Greet
gone = offered:nothing
wave = offered:waves
library = offered:fewstep
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


@pytest.mark.usefixtures("package")
def test_a_package_adds_commands(capsys):
    assert main(["greet"]) == 3
    assert main(["greet", "--loud"]) == 3
    assert main(["greet-some", "--quiet"]) == 4
    assert capsys.readouterr().out == "hello\nHELLO\n"
    assert main(["greet", "--lout"]) == 2
    assert "Did you mean --loud? All are listed by: fewstep greet --help" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "Greet somebody." in shown
    assert "AttributeError" in shown  # of `gone`: the others show
    assert _commands.commands()["train"].module == "fewstep.cli._train"


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone", "a command of the package offered, cannot be loaded: AttributeError"),
        ("wave", "a command of the package offered, cannot be loaded: TypeError"),
        ("library", "offered:fewstep, which is not a command"),
    ],
)
def test_a_command_that_is_none_is_named_with_its_package(name, words, capsys):
    assert main([name]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_without_the_studies_their_commands_name_the_fix(monkeypatch, capsys):
    monkeypatch.setattr(_commands, "entry_points", lambda **_: metadata.EntryPoints())
    for name in ("reproduce", "bench"):
        assert main([name, "--help"]) == 2
        fix = "Run: pip install 'fewstep[studies]'"
        expected = f"fewstep: fewstep {name} is one of the studies, which are not installed. {fix}\n"
        assert capsys.readouterr().err == expected
