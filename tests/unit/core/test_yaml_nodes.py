"""Tests of untrusted YAML: aliases and merge keys are counted as expanded before parsing, and no key is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from epigram.cli.options import parse_change, to_unique_dict
from epigram.cli.runs.sweep import parse_dimension
from epigram.core import yaml_nodes
from epigram.core.config_types import parse_yaml
from epigram.core.errors import ParameterError
from epigram.data.sources.source import read_source
from epigram.runner.workspace.settings import load


def doubled(levels: int) -> str:
    """Return a one-key mapping that each level merges twice: 2 ** levels pairs before PyYAML drops equal keys."""
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, levels + 1)]
    return "\n".join(lines)


def test_merge_keys_are_counted_before_they_are_expanded(tmp_path: Path) -> None:
    text = doubled(24)
    assert len(text) < 900
    with pytest.raises(ValueError, match="has more than"):
        parse_yaml(text)
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(ParameterError, match=r"params\.yaml is not valid YAML: it has more than"):
        load(tmp_path / "params.yaml")
    flow = "{a0: &a0 {k: 1}, " + ", ".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 25))
    with pytest.raises(ParameterError, match=r"--set train: .* is not a YAML value \(it has more than"):
        parse_change(f"train={flow}}}")


def test_a_few_merge_keys_work() -> None:
    assert parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [*a, {z: 4}]}") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2, "z": 4},
    }


def test_the_limit_is_that_of_the_expanded_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapping, its two keys, the three-item list and the expanded alias make 11 values."""
    monkeypatch.setattr(yaml_nodes, "MAX_VALUES", 11)
    assert parse_yaml("a: &a [1, 2, 3]\nb: *a") == {"a": [1, 2, 3], "b": [1, 2, 3]}
    with pytest.raises(ValueError, match="has more than 11 values"):
        parse_yaml("a: [1, 2, 3]\nb: [1, 2, 3, 4]")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3", 3),
        ("a:\n  b: 1\n  c: 2\n  b: 1", 4),
        ("- {x: 1, x: 1}", 1),
        ("yes: 1\ntrue: 2", 2),
        ("1: a\n0x1: b", 2),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a", 4),
    ],
)
def test_a_repeated_key_is_refused(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=rf"line {line}: duplicate key .*"):
        parse_yaml(text)


def test_a_repeated_key_is_named_wherever_yaml_is_read(tmp_path: Path) -> None:
    for name, read in (("params.yaml", load), ("toy.yaml", read_source)):
        (tmp_path / name).write_text("name: toy\nname: other\n")
        with pytest.raises(ParameterError, match=rf"{name} is not valid YAML: line 2: duplicate key 'name'"):
            read(tmp_path / name)  # type: ignore[operator]
    with pytest.raises(ParameterError, match=r"--set train: .*duplicate key 'epochs'"):
        parse_change("train={epochs: 1, epochs: 2}")


@pytest.mark.parametrize(("option", "read"), [("--set", parse_change), ("--over", parse_dimension)])
def test_an_option_names_a_key_once(option: str, read: Callable[[str], tuple[str, object]]) -> None:
    given = ["train.epochs=1", "seeds=0", "train.epochs=2"]
    with pytest.raises(ParameterError, match=rf"{option} train\.epochs is given twice"):
        to_unique_dict(option, map(read, given))
    assert list(to_unique_dict(option, map(read, given[:2]))) == ["train.epochs", "seeds"]
