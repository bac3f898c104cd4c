"""Every promise of docs/development/quality.md is on a page, and the test that checks it exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
QUALITY = (ROOT / "docs/development/quality.md").read_text(encoding="utf-8")
PROMISES = QUALITY[QUALITY.index("## Promises and what checks them") :]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PROMISES)))


def listed() -> list[tuple[str, str]]:
    """Return promise and checks of every row."""
    lines = [line for line in PROMISES.splitlines() if line.startswith('| "')]
    rows = [[part.replace("\\|", "|").strip() for part in re.split(r"(?<!\\)\|", line)[1:3]] for line in lines]
    return [(promise[1:-1], checks) for promise, checks in rows]


@cache
def text_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").replace("**", "").split())


@cache
def text_of_all_pages() -> str:
    return "\n".join(text_of(page) for page in ("README.md", *map(str, sorted((ROOT / "docs").glob("*.md")))))


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def equations_in(text: str) -> set[int]:
    """Return the equation numbers in "1, 2, 4 to 13" or in a test name: `test_eq1_2_…`, `test_eq4_to_13_…`."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:[ _]to[ _](\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize(("promise", "checks"), listed())
def test_a_promise_is_on_a_page_and_names_its_check(promise: str, checks: str) -> None:
    assert promise in text_of_all_pages(), f"no page says {promise!r}: change docs/development/quality.md too"
    assert re.fullmatch(r"`tests/[\w/]+\.py::test_\w+`(, `tests/[\w/]+\.py::test_\w+`)*", checks)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    assert name in functions_of(path)


@pytest.mark.parametrize("row", re.findall(r"^\| [^|]+ \| ([\d, to]+) \| `(tests/parity/\w+\.py)` \|$", PROMISES, re.M))
def test_every_equation_of_the_table_has_a_test_of_its_number(row: tuple[str, str]) -> None:
    numbers, path = row
    names = [re.search(r"eq(\d+(?:_(?:to_)?\d+)*)", name) for name in functions_of(path)]
    covered = set().union(*(equations_in(name[1]) for name in names if name))
    assert equations_in(numbers) <= covered


def test_the_linear_svm_is_a_default_system() -> None:
    assert "tfidf_svm" in yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))["systems"]


def test_the_means_of_the_combinations_are_those_of_the_log() -> None:
    log = (ROOT / "docs/development/log.md").read_text(encoding="utf-8")
    table = log[log.index("**Combinations from scratch**") :].split("\n\n")[1]
    rows = [[cell.strip() for cell in line.strip(" |").split("|")] for line in table.splitlines()[2:]]
    means = {name: float(mean) for name, *_, mean in rows}
    for name, _, *scores, mean in rows:
        assert sum(map(float, scores)) / 4 == pytest.approx(float(mean), abs=0.051), name
    svm, att, best = (
        next(means[name] for name in means if name.startswith(f"`{system}`"))
        for system in ("tfidf_svm", "att_blstm", "best")
    )
    others = [mean for name, mean in means.items() if not name.startswith("`tfidf_svm`")]
    said = text_of("docs/systems.md")
    assert f"its mean is {best}, that of `att_blstm` {att}" in said
    assert f"that of the highest of {len(others)} combinations {max(others)}" in said
    assert f"and that of `tfidf_svm` {svm}" in said
