"""What params.yaml may not say, and which paths are below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pithy.errors import ParameterError
from pithy.files import stands_in
from pithy.settings import load

PARAMS = """\
dataset: shop
seeds: [0, 1]
views: {token: {tokenizer: token}}
systems: {textcnn: {view: token}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds: [0, 1]", "seeds: [0, 0]", r"seeds was \[0, 0\]"),
        ("seeds: [0, 1]", "seeds: [0, -1]", r"seeds.*-1"),
        ("textcnn:", "'a; rm -rf x':", r"'a; rm -rf x': letters, digits"),
        ("tokenizer: token}", "checkpoint: bert, pretrain: {}}", "has checkpoint and pretrain"),
        ("tokenizer: token}", "vectors: a.txt, pretrain: {}}", "has vectors and pretrain"),
    ],
)
def test_what_cannot_hold_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(PARAMS)
    assert load(path).seeds == [0, 1]
    path.write_text(PARAMS.replace(old, new))
    with pytest.raises(ParameterError, match=said):
        load(path)


@pytest.mark.parametrize(
    ("path", "inside"), [("data/local/x.csv", True), ("data/local/../x.csv", False), ("data/./local/a/../x", True)]
)
def test_a_path_is_below_a_folder_as_it_is_resolved(tmp_path: Path, path: str, inside: bool) -> None:
    assert stands_in(tmp_path / path, tmp_path / "data" / "local") is inside
