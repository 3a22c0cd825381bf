"""Takes finished reproductions into benchmarks/results, and writes their tables into the README and the docs.

fewstep reproduce sinusoid && python benchmarks/publish.py runs/reproduce-sinusoid
fewstep reproduce omniglot --only mtnet-5way-1shot && python benchmarks/publish.py runs/reproduce-omniglot
fewstep reproduce curves --only auto trees && python benchmarks/publish.py runs/reproduce-curves=curves-auto
python benchmarks/publish.py               only writes the tables again, from what is committed
"""

import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from fewstep_studies import bench
from fewstep_studies.reproduce import STUDIES, Result, main_table, read_record, tables_of

RESULTS = Path(__file__).resolve().parent / "results"
ROOT = Path(__file__).resolve().parents[1]
_DOCS = ("reproductions", "universality", "your-data", "speed", "images", "text", "methods/features")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in _DOCS))


def take(folder: Path, name: str = "") -> None:
    """Copies a reproduction's result, figures and their data; one that is not of the full size is refused. With a name,
    which begins with that of the study, it stands beside the published one."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    if not _is_full(result):
        raise SystemExit(f"{folder} was made by {result['command']!r}, which is not the full reproduction.")
    home = RESULTS / (name or result["name"])
    new = home.with_name(f"{home.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    (folder / "figures").mkdir(exist_ok=True)  # a study that nothing can be drawn of yet has none
    shutil.copytree(folder / "figures", new)
    if _is_by_row(result) and (home / "result.json").exists():
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


def _is_full(result: dict[str, Any]) -> bool:
    """Whether a result has the paper's size; what is free may differ, and rows that were trained alone say how long."""
    if result["name"] == bench.NAME:
        return not result["quick"]
    study = STUDIES[result["name"]]
    full = json.loads(json.dumps(dataclasses.asdict(study.full)))
    any_size = (*study.free, *study.either)
    return all(result["scale"].get(key) == value for key, value in full.items() if key not in any_size)


def _is_by_row(result: dict[str, Any]) -> bool:
    return result["name"] in STUDIES and "steps" in STUDIES[result["name"]].free


def with_tables(page: str) -> str:
    """The page with tables of the committed results between its marks, those that it has."""
    for path in sorted(RESULTS.glob("*/result.json")):
        result = json.loads(path.read_text())
        home = path.parent.name
        texts = {mark.replace(result["name"], home, 1): text for mark, text in _texts(result).items()}
        for mark, text in texts.items():
            page = _between(page, mark, text + ("\n\n" + _source(result, mark) if mark == home else ""))
        if home not in texts:  # of several tables none is the main one
            page = _between(page, f"{home} source", _source(result, home))
    return page


def _texts(result: dict[str, Any]) -> dict[str, str]:
    """The tables of a result by their marks; those with the same mark stand below each other."""
    name = result["name"]
    if name == bench.NAME:
        measured = bench.from_json(result)
        text = _table(bench.HEAD, bench.table_rows(measured.rows)) + "\n\n" + " ".join(bench.remarks(measured))
        return {name: text, f"{name} sweeps": _table(bench.SWEEP_HEAD, bench.sweep_rows(measured.sweeps))}
    known, texts = read_record(Result, result), {f"{name} under way": ""}
    tables = tables_of(STUDIES[name], known)
    ten = [row for row in known.rows if row.setting.get("shots") == 10]
    transductive = [row for row in known.rows if row.more.get("transductive")]
    tables += [main_table(f"{name}, 10 shots", ten), main_table(f"{name}, transductive", transductive)]
    for table in tables:
        text = _table(table.head, table.body)
        texts[table.mark] = f"{texts[table.mark]}\n\n{text}" if texts.get(table.mark) else text
    return texts


def _between(page: str, name: str, text: str) -> str:
    marked = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.S)
    return marked.sub(lambda found: found[1] + text + found[2], page)


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = lambda row: "| " + " | ".join(row) + " |"
    return "\n".join([cells(head), "|" + "---|" * len(head), *map(cells, rows)])


def _source(result: dict[str, Any], name: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    how = f"`{result['command']}`, {result['total_seconds'] / 60:.0f} minutes"
    if _is_by_row(result):
        how = f"Each row by `fewstep reproduce {result['name']} --only ROW`, with `--steps` where they are given"
    where = f"on {result['cores']} core{'s'[: result['cores'] > 1]}, {_seeds(**result['scale'])}"
    return (
        f"{how}, {where}, {versions}, commit {_commit(str(result['commit']))}: "
        f"[result.json](../benchmarks/results/{name}/result.json), and beside it the data of each plot."
    )


def _commit(text: str) -> str:
    """A commit in ten letters, and whether the tree had changes beside it."""
    commit, _, changed = text.partition("-")
    return commit[:10] + (" with changes" if changed else "")


def _seeds(seed: int, seeds: int = 1, **rest: Any) -> str:
    return f"seed {seed}" if seeds == 1 else f"seeds {seed} to {seed + seeds - 1}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path, _, name = argument.partition("=")
        take(Path(path), name)
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
