"""A broken file of any format is read or rejected with one clear line: a short run of the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test

from epigram.core.errors import InputMissingError
from epigram.core.files import read_json
from tests.fuzz import test_corpus_holds, test_prompts_hold, test_readers_hold, test_settings_hold
from tests.fuzz import test_tokenizers_hold as tokenizers
from tests.support import formats
from tests.support.budget import SCALE

ROUNDS = 36


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[formats.Format]:
    return formats.build(tmp_path_factory.mktemp("seeds"))


def test_broken_files_are_read_or_refused(seeds: list[formats.Format]) -> None:
    report = formats.run(seeds, cases=range(ROUNDS * SCALE), seed=0)
    assert not report.findings
    assert report.cases == ROUNDS * SCALE * len(seeds) >= 1_900
    assert report.refused.total() > report.cases // 3
    assert set(report.refused) == {each.name for each in seeds}


def test_the_same_seed_breaks_the_same_files(seeds: list[formats.Format], tmp_path: Path) -> None:
    small = [each for each in seeds if each.name in {"csv", "params.yaml", "zip"}]
    one, other = (formats.run(small, cases=range(20), seed=5) for _ in range(2))
    assert (one.read, one.refused, one.findings) == (other.read, other.refused, other.findings)
    assert all(each.path.read_bytes() for each in small)


def test_an_error_is_located_in_the_package_whatever_the_folders_are_called(tmp_path: Path) -> None:
    elsewhere = tmp_path / "epigram" / "other.py"
    with pytest.raises(ZeroDivisionError) as outside:
        exec(compile("1 / 0", str(elsewhere), "exec"))
    with pytest.raises(InputMissingError) as inside:
        read_json(tmp_path / "absent.json")
    assert formats.described(outside.value) == "ZeroDivisionError in outside: 'division by zero'"
    assert formats.described(inside.value).startswith("InputMissingError in files.py:read_json: ")


def test_a_finding_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")

    def fail(folder: Path) -> None:
        raise KeyError("oops")

    report = formats.run([formats.Format("toy", tmp_path, "x", fail)], cases=range(3), seed=0)
    assert list(report.findings) == ["KeyError in outside: \"'oops'\""]
    assert report.cases == 3


def test_the_suite_tries_twenty_thousand_cases_at_least() -> None:
    modules = [test_corpus_holds, test_prompts_hold, test_readers_hold, test_settings_hold, tokenizers]
    asked = 0
    for module in modules:
        for test in vars(module).values():
            if is_hypothesis_test(test):
                marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
                times = len(list(marks[0].args[1])) if marks else 1
                asked += times * test._hypothesis_internal_use_settings.max_examples
    assert asked >= 20_000 * SCALE
