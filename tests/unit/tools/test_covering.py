"""Tests of the covering array on factors whose pairs are counted by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.covering import Allowed, Level, all_pairs, complete, covering_array, pairs_of

FACTORS = {"a": ["1", "2", "3"], "b": ["x", "y"], "c": ["p", "q"]}


def without(*refused: set[Level]) -> Allowed:
    return lambda one, other: {one, other} not in refused


def test_all_pairs_of_three_factors() -> None:
    assert len(all_pairs(FACTORS)) == 3 * 2 + 3 * 2 + 2 * 2
    assert all_pairs(FACTORS)[0] == (("a", "1"), ("b", "x"))


def test_every_pair_is_in_a_case_and_there_are_fewer_cases_than_combinations() -> None:
    cases = covering_array(FACTORS, lambda *_: True)
    covered = {pair for case in cases for pair in pairs_of(case)}
    assert covered == {frozenset(pair) for pair in all_pairs(FACTORS)}
    assert len(cases) == 6  # the 3 × 2 pairs of a and b need six; all combinations are twelve


def test_a_refused_pair_is_in_no_case_and_all_others_are() -> None:
    refused = {("a", "1"), ("b", "x")}
    cases = covering_array(FACTORS, without(refused))
    covered = {pair for case in cases for pair in pairs_of(case)}
    assert covered == {frozenset(pair) for pair in all_pairs(FACTORS)} - {frozenset(refused)}


def test_a_choice_that_leaves_no_level_of_a_later_factor_is_taken_back() -> None:
    refused = [{("b", "x"), ("c", "p")}, {("b", "x"), ("c", "q")}]
    assert complete(FACTORS, without(*refused), {"a": "1"}) == {"a": "1", "b": "y", "c": "p"}


def test_a_pair_that_no_combination_contains_is_an_error() -> None:
    refused = [{("a", "1"), ("c", "p")}, {("b", "x"), ("c", "q")}]  # a=1 with b=x leaves no level of c
    with pytest.raises(ValueError, match=r"no combination contains \('a', '1'\) and \('b', 'x'\)"):
        covering_array(FACTORS, without(*refused))


def test_the_cases_do_not_depend_on_the_hashes_of_strings() -> None:
    code = (
        "from tests.support.covering import covering_array as of;"
        "print(of({'a': '123', 'b': 'xy', 'c': 'pqr', 'd': 'kl'}, lambda *_: True))"
    )
    root = Path(__file__).parents[3]
    printed = {
        subprocess.check_output([sys.executable, "-c", code], cwd=root, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert len(printed) == 1
