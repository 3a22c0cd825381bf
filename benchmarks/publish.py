"""Takes finished reproductions into benchmarks/results, and writes their tables into the README and the docs.

fewstep reproduce sinusoid && python benchmarks/publish.py runs/reproduce-sinusoid
fewstep reproduce omniglot --only mtnet-5way-1shot && python benchmarks/publish.py runs/reproduce-omniglot
python benchmarks/publish.py               only writes the tables again, from what is committed
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from fewstep import bench
from fewstep.reproduce import (
    HEAD,
    STUDIES,
    UNFINISHED,
    Scale,
    cost_table,
    curves,
    layerwise,
    table_rows,
    unfinished_rows,
    universality,
)

RESULTS = Path(__file__).resolve().parent / "results"
ROOT = Path(__file__).resolve().parents[1]
_DOCS = ("reproductions", "universality", "your-data", "speed")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in _DOCS))


def take(folder: Path) -> None:
    """Copies a reproduction's result, figures and their data; one that is not of the full size is refused."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    if result["name"] == layerwise.NAME:
        _check_layerwise(folder, result)
    elif result["name"] == universality.NAME:
        _check_universality(folder, result)
    elif result["name"] == curves.NAME:
        _check_curves(folder, result)
    elif result["name"] == bench.NAME:
        _check_bench(folder, result)
    else:
        _check(folder, result)
    home, new = RESULTS / result["name"], RESULTS / f"{result['name']}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(folder / "figures", new)
    if result["name"] in STUDIES and STUDIES[result["name"]].by_row and (home / "result.json").exists():
        _keep_other_rows(home, new, result)
    result["report"] = None  # it is made again by the command
    (new / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    shutil.rmtree(home, ignore_errors=True)
    new.rename(home)


def _keep_other_rows(home: Path, new: Path, result: dict[str, Any]) -> None:
    """Keeps the published rows that were trained in another folder, each with its own command, and their figures."""
    before, here = json.loads((home / "result.json").read_text()), {row["cell"] for row in result["rows"]}
    kept = [row for row in before["rows"] if row["cell"] not in here]
    result["rows"] = kept + result["rows"]
    commits = set(before.get("trained_at_commits", [])) if kept else set()
    result["trained_at_commits"] = sorted({*result["trained_at_commits"], *commits})
    for file in home.iterdir() if kept else ():
        if not (new / file.name).exists() and file.name != "result.json":
            shutil.copy(file, new / file.name)


def _check_layerwise(folder: Path, result: dict[str, Any]) -> None:
    """Refuses what is not of the poster's size; of the claims, pictures are in the figures."""
    scale = layerwise.Scale(**result["scale"])._replace(only=())
    if scale != layerwise.Scale():
        raise SystemExit(f"{folder} was made by {result['command']!r}, which is not the full reproduction.")
    for told in result["claims"].values():
        del told["kernels"]


def _check_universality(folder: Path, result: dict[str, Any]) -> None:
    scale = universality.Scale(**result["scale"])
    if scale._replace(targets=tuple(scale.targets)) != universality.Scale():
        raise SystemExit(f"{folder} was made by {result['command']!r}, which is not the full reproduction.")


def _check_curves(folder: Path, result: dict[str, Any]) -> None:
    if curves.Scale(**result["scale"])._replace(only=()) != curves.Scale():
        raise SystemExit(f"{folder} was made by {result['command']!r}, which is not the full reproduction.")


def _check_bench(folder: Path, result: dict[str, Any]) -> None:
    if result["quick"]:
        raise SystemExit(f"{folder} was made by {result['command']!r}, which is a look only.")


def _check(folder: Path, result: dict[str, Any]) -> None:
    study, scale = STUDIES[result["name"]], Scale(**result["scale"])
    scale = scale._replace(only=tuple(scale.only), shots=tuple(scale.shots))
    if study.by_row:  # its rows are trained one by one, and say how long
        scale = scale._replace(only=(), budget=None, steps=study.scale.steps, shots=())
    if scale != study.scale:
        raise SystemExit(f"{folder} was made by {result['command']!r}, which is not the full reproduction.")


def with_tables(page: str) -> str:
    """The page with tables of the committed results between its marks, those that it has."""
    for path in sorted(RESULTS.glob("*/result.json")):
        result = json.loads(path.read_text())
        if result["name"] == layerwise.NAME:
            made = {name: _table(*parts) for name, parts in layerwise.tables(result).items()}
            page = _between(page, "layerwise", made["poster"] + "\n\n" + _source(result))
            page = _between(page, "layerwise scores", made["scores"])
            page = _between(page, "layerwise ours", made["ours"])
            page = _between(page, "layerwise real", made.get("real", ""))
            page = _between(page, "layerwise claims", made.get("claims", ""))
            continue
        if result["name"] == curves.NAME:
            text = "\n\n".join(_table(*parts) for parts in curves.tables(result).values())
            page = _between(page, curves.NAME, text + "\n\n" + _source(result))
            continue
        if result["name"] == bench.NAME:
            measured = bench.from_json(result)
            text = _table(bench.HEAD, bench.table_rows(measured.rows)) + "\n\n" + " ".join(bench.remarks(measured))
            page = _between(page, bench.NAME, text + "\n\n" + _source(result))
            page = _between(page, f"{bench.NAME} sweeps", _table(bench.SWEEP_HEAD, bench.sweep_rows(measured.sweeps)))
            continue
        if result["name"] == universality.NAME:
            text = _table(universality.HEAD, universality.table_rows(result["rows"]))
            page = _between(page, universality.NAME, text + "\n\n" + _source(result))
            continue
        rows, name, under_way = result["rows"], result["name"], result.get("unfinished", [])
        page = _between(page, name, _table(HEAD, table_rows(rows)) + "\n\n" + _source(result))
        page = _between(page, f"{name} cost", _table(*cost_table(result.get("cost", []))))
        ten = [row for row in rows if row["setting"].get("shots") == 10]
        page = _between(page, f"{name}, 10 shots", _table(HEAD, table_rows(ten)))
        transductive = [row for row in rows if row.get("transductive")]
        page = _between(page, f"{name}, transductive", _table(HEAD, table_rows(transductive)))
        page = _between(page, f"{name} under way", _table(UNFINISHED, unfinished_rows(under_way)) if under_way else "")
    return page


def _between(page: str, name: str, text: str) -> str:
    marked = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.S)
    return marked.sub(lambda found: found[1] + text + found[2], page)


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = lambda row: "| " + " | ".join(row) + " |"
    return "\n".join([cells(head), "|" + "---|" * len(head), *map(cells, rows)])


def _source(result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    told = f"`{result['command']}`, {result['total_seconds'] / 60:.0f} minutes"
    if result["name"] in STUDIES and STUDIES[result["name"]].by_row:
        told = f"Each row by `fewstep reproduce {result['name']} --only ROW`, with `--steps` where they are told"
    where = f"on {result['cores']} core{'s'[: result['cores'] > 1]}, {_seeds(**result['scale'])}"
    return (
        f"{told}, {where}, {versions}, commit {_commit(str(result['commit']))}: "
        f"[result.json](../benchmarks/results/{result['name']}/result.json), and beside it the data of each plot."
    )


def _commit(text: str) -> str:
    """A commit in ten letters, and whether the tree had changes beside it."""
    commit, _, changed = text.partition("-")
    return commit[:10] + (" with changes" if changed else "")


def _seeds(seed: int, seeds: int = 1, **rest: Any) -> str:
    return f"seed {seed}" if seeds == 1 else f"seeds {seed} to {seed + seeds - 1}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        take(Path(argument))
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
