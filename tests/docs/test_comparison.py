"""docs/comparison.md: each mark of the tables has its evidence, and the counts are those of the tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.test_quality import functions_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "comparison.md").read_text(encoding="utf-8")
LINKS = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", PAGE, re.M))
MARKS = ("yes", "part", "no", "not found")
NUMBERS = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")


def tables(first: str) -> list[list[str]]:
    """Return the rows of all tables whose first column has this heading."""
    found = re.findall(rf"^\| {first} \|.*\n\| ---.*\n((?:\|.*\n)+)", PAGE, re.M)
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for table in found for line in table.splitlines()]


def mark(cell: str) -> str:
    return re.sub(r"^\[(yes|part)\][\[(].*[\])]$", r"\1", cell)


ROWS = [row for row in tables("feature") if len(row) == 7]
TESTS = dict(row for row in tables("feature") if len(row) == 2)
OFFERED = [row for row in ROWS if {"yes", "part"} & {mark(cell) for cell in row[2:]}]


def test_the_counts_are_those_of_the_tables() -> None:
    counted = [Counter(mark(row[column]) for row in ROWS) for column in range(1, 7)]
    offered = [Counter(mark(row[column]) for row in OFFERED) for column in range(1, 7)]
    expected = [
        [str(count[name]) for name in MARKS] + [str(part["yes"]), str(part["part"])]
        for count, part in zip(counted, offered, strict=True)
    ]
    assert [row[1:] for row in tables("tool") if len(row) == 7] == expected
    assert f"| yes, of {len(OFFERED)} | part, of {len(OFFERED)} |" in PAGE
    assert f"The list has {len(ROWS)} features" in PAGE
    assert f" {NUMBERS[len(ROWS) - len(OFFERED)]} of them are in none of the five tools" in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_mark_has_its_evidence(row: list[str]) -> None:
    feature, own, *peers = row
    assert [each[0] for each in ROWS].count(feature) == 1
    assert {mark(cell) for cell in (own, *peers)} <= set(MARKS)
    for peer in peers:
        assert peer in ("no", "not found") or re.fullmatch(r"\[(yes|part)\]\[[\w-]+\]", peer), f"{peer} has no source"
    name, _, tool = feature.partition(" ([")
    assert row in OFFERED or re.search(r"\]\[x-\w+\]\)$", tool), "name a tool that has it"
    if own == "no":
        assert name not in TESTS
    else:
        page = re.fullmatch(r"\[(yes|part)\]\(([\w/.-]+)(#[^)]+)?\)", own)
        path, _, test = TESTS[name].strip("`").partition("::")
        assert page and (DOCS / page[2]).is_file() and test in functions_of(path)


def test_every_test_is_of_a_feature() -> None:
    assert TESTS.keys() <= {row[0].partition(" ([")[0] for row in ROWS}


def test_every_source_is_an_address_and_used() -> None:
    used = set(re.findall(r"\]\[([\w-]+)\]", PAGE))
    assert used == LINKS.keys() and all(address.startswith("https://") for address in LINKS.values())
