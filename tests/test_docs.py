"""The code of the README and of every page in docs runs as it stands, and their commands are those of the parser.

A training of a page takes minutes. Here its numbers of steps and tasks are a hundredth of what the page says, and an
estimator has a method that compiles quickly; nothing else is changed, unless `EDITS` says so.
"""

import functools
import importlib
import json
import re
import shlex
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import pandas
import pytest
import sklearn
from serving import ask, begun, service

import fewstep
import fewstep.serve
from fewstep import Experiment, estimators, rules
from fewstep.cli import _commands
from fewstep.cli._parse import parse
from fewstep.experiments import build
from fewstep.models import pretrained
from fewstep.runs import Run
from fewstep.runs.code import copy_code

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
# What a page cannot do inside the tests, and what is done instead.
EDITS = {
    "docs/faq.md": ('"jax_num_cpu_devices", 2', '"jax_num_cpu_devices", 3'),  # JAX has started, with three
    "docs/your-data.md": ("GroupKFold(5)", "GroupKFold(2)"),  # each of them is a training
}
LONG = ("docs/concepts.md", "docs/layerwise.md", "docs/faq.md", "docs/add-a-method.md", "docs/bring-your-model.md")


class Block(NamedTuple):
    kind: str
    text: str
    line: int


def blocks(page: str, *kinds: str) -> list[Block]:
    """The blocks of a page, all or those of some kinds, with the line each begins at."""
    text = PAGES[page].read_text()
    there = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2))) for m in there if not kinds or m[1] in kinds]


def pages_with(*kinds: str) -> list[str]:
    return [page for page in PAGES if blocks(page, *kinds)]


def seldom(pages: Iterable[str]) -> list[Any]:
    """Pages as parameters of a test. Those of the methods are alike: MT-net's stands for them. The rest are slow, and
    so are some with long programs."""
    often = lambda page: page in ("README.md", "docs/methods/mtnet.md") or not page.startswith(("docs/methods/", *LONG))
    return [pytest.param(page, marks=[] if often(page) else [pytest.mark.slow]) for page in pages]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the steps and tasks, and small estimators: `test_estimators` fits those of other methods."""

    def shorten(function: Callable[..., Any], **sizes: int) -> Callable[..., Any]:
        @functools.wraps(function)
        def short(*given: Any, **options: Any) -> Any:
            return function(*given, **options | {n: max(2, options.get(n, size) // 100) for n, size in sizes.items()})

        return short

    monkeypatch.setattr(fewstep, "train", shorten(fewstep.train, steps=0, validate_every=1000))
    monkeypatch.setattr(fewstep, "evaluate", shorten(fewstep.evaluate, n_tasks=600))
    monkeypatch.setattr(fewstep, "make_validate", shorten(fewstep.make_validate, n_tasks=600))
    fit = estimators.FewShotRegressor.fit
    sizes = {"method": "ridge", "steps": 2, "seeds": 1, "hidden": (8,), "random_state": 0}
    smaller = lambda self, *given, **more: fit(self.set_params(**sizes), *given, **more)
    monkeypatch.setattr(estimators.FewShotRegressor, "fit", functools.wraps(fit)(smaller))


def growth(folder: Path) -> None:
    """The table of docs/your-data.md: ten children, eight rows each."""
    rows = [(f"child {n}", age, "fm"[n // 5], 80 + n + 6.0 * age) for n in range(10) for age in range(2, 10)]
    table = pandas.DataFrame(rows, columns=["child", "age", "sex", "height_cm"])
    table.to_csv(folder / "growth.csv", index=False)
    table[:5].drop(columns="child").to_csv(folder / "new.csv", index=False)
    table[5:8][["age", "sex"]].to_csv(folder / "ask.csv", index=False)


def sensors(folder: Path) -> None:
    importlib.import_module("sensors").main(folder)


FILES = {"README.md": sensors, "docs/your-data.md": growth}


def run(page: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs the Python of a page, block by block, in one scope; what it printed. A block of text right after one of
    Python is what that one prints."""
    scope, printed = {"__name__": page}, ""
    for before, block in pairwise([Block("", "", 0), *blocks(page)]):
        if block.kind == "python":
            code = block.text.replace(*EDITS.get(page, ("", "")))
            with jax.numpy_rank_promotion("allow"):  # a reader's own code may be less strict than ours
                exec(compile("\n" * block.line + code, page, "exec"), scope)
            printed = capsys.readouterr().out
        elif (before.kind, block.kind) == ("python", "text"):
            assert printed == block.text
    return printed


@pytest.mark.parametrize("page", seldom(page for page in pages_with("python") if page != "docs/serve.md"))
@pytest.mark.usefixtures("small")
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    if page in FILES:
        FILES[page](tmp_path)
    with sklearn.config_context():  # a page may set what holds for all of scikit-learn
        run(page, capsys)


@pytest.mark.xdist_group("serve")
def test_the_code_of_the_service_runs(tmp_path, monkeypatch, capsys):
    """Against a service on another port: what is asked with curl, in order, then the client."""
    monkeypatch.chdir(tmp_path)
    with service([begun(tmp_path / "runs", "mtnet")]) as (url, _):
        adapter = ""
        for words in (shlex.split(line) for line in shell_lines("docs/serve.md") if line.startswith("curl")):
            path, body = words[1].removeprefix("localhost:8000"), words[words.index("-d") + 1] if "-d" in words else ""
            body = body.replace("12cd94...", adapter).encode() or None
            status, answer, _ = ask(url, "POST" if body else "GET", path, body)
            assert status == 200, answer
            adapter = answer.get("adapter", adapter)
        assert adapter
        real = fewstep.serve.Client
        monkeypatch.setattr(fewstep.serve, "Client", lambda given: real(given.replace("http://127.0.0.1:8000", url)))
        assert len(json.loads(run("docs/serve.md", capsys))) == 1


def shell_lines(page: str) -> list[str]:
    """The lines of a page's shell blocks; one that ends in a backslash goes on."""
    return [line for block in blocks(page, "sh") for line in block.text.replace("\\\n", " ").splitlines()]


def commands(page: str) -> list[list[str]]:
    """The arguments of every `fewstep` in a page's shell blocks and in a job's `command`, whatever starts it."""
    words = [shlex.split(line, comments=True) for line in shell_lines(page)]
    jobs = re.findall(r"command: \[(.*?)\]", "".join(block.text for block in blocks(page, "yaml")))
    words += [[word.strip(' "') for word in job.split(",")] for job in jobs]
    return [some[some.index("fewstep") + 1 :] for some in words if "fewstep" in some]


def read(args: list[str]) -> Any:
    """The command that the real parser makes of arguments, not run; of `launch`, what it would launch is read too."""
    command: Any = parse(_commands.commands(), args)
    return read(list(command.command)) if args[0] == "launch" else command


@pytest.mark.parametrize("page", seldom(page for page in pages_with("sh") if commands(page)))
def test_the_commands_of_a_page_are_those_of_the_parser(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(page)
    if page == "docs/add-a-method.md":  # its commands are of the rule that it adds
        scope: dict[str, Any] = {}
        exec(blocks(page, "python")[-1].text, scope)
        monkeypatch.setitem(rules.RULES, "layer_rates", scope["layer_rates"])
    for args in commands(page):
        if args[0].startswith("--"):  # it would be done at once; `test_command_line` has these
            continue
        if args[0] == "eval" and args[1] not in pretrained() and not Path(args[1]).exists():
            begin(Path(args[1]), Experiment("mtnet", "sinusoid"))
        command = read(args)
        experiment = getattr(command, "experiment", None)
        if experiment is None:
            continue
        features = experiment.has("encoder") and experiment.encoder  # building computes those of the training classes
        if not features and not experiment.tasks.startswith(("folder:", "table:")):
            for each in experiment.parts.values() if experiment.picks else (experiment,):
                build(each)  # refuses unknown names, and what does not fit together
        if command.run_settings.run is not None:
            begin(command.run_settings.run, experiment)


def write_files(page: str) -> None:
    """The files that a page shows: blocks of Python whose first line is a name such as mine.py."""
    for block in blocks(page, "python"):
        if named := re.match(r'"""(\w+\.py)"""', block.text):
            Path(named[1]).write_text(block.text)


def begin(path: Path, experiment: Experiment) -> None:
    """A run that was begun: what options `eval` has depends on it."""
    path.mkdir(parents=True, exist_ok=True)
    Run(path, copy_code(experiment, path)).write_config()


def test_a_misspelled_option_is_seen():
    with pytest.raises(fewstep.FewstepError, match="--stepps"):
        read(["train", "mtnet", "sinusoid", "--stepps", "3"])


def test_no_block_is_passed_over():
    """By another mark of its language, or because it stands further right."""
    kinds = {kind for path in PAGES.values() for kind in re.findall(r"^ *```(.+)$", path.read_text(), re.MULTILINE)}
    assert kinds == {"python", "sh", "text", "diff", "yaml", "nginx"}
    assert not any(re.search(r"^ +```", path.read_text(), re.MULTILINE) for path in PAGES.values())
