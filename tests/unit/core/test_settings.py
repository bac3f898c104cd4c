"""What params.yaml may not say, and which paths are below a folder."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from epigram.core.errors import ParameterError
from epigram.core.files import stands_in
from epigram.core.settings import dataset_of, load
from epigram.data.sources.source import load_source, read_source

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


@pytest.mark.parametrize("name", ["../precious", "/precious", ".hidden", "-x", "a b", "", "x" * 101, 7, None])
def test_a_data_set_has_a_name_wherever_it_is_named(tmp_path: Path, name: object) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(PARAMS)
    assert dataset_of(path) == load(path).dataset == "shop"
    path.write_text(PARAMS.replace("dataset: shop", f"dataset: {json.dumps(name)}"))
    for read in (dataset_of, load):
        with pytest.raises(ParameterError, match=r"params\.yaml: dataset was"):
            read(path)


@pytest.mark.parametrize("key", ["retrain: {systems: [%s]}", "systems: {textcnn: {view: %s}}"])
def test_a_system_and_a_view_have_names(tmp_path: Path, key: str) -> None:
    path = tmp_path / "params.yaml"
    others = [line for line in PARAMS.splitlines() if line.split(":")[0] != key.split(":", maxsplit=1)[0]]
    for name in ("token", "../token"):
        path.write_text("\n".join([*others, key % name]))
        with pytest.raises(ParameterError, match=r"was '\.\./token': letters") if "/" in name else nullcontext():
            load(path)


SOURCE = """\
name: NAME
about: a few texts
language: en
task: single
licence: none
files: [{path: x.csv, local: data/local/x.csv}]
read: {reader: csv}
"""


def test_a_source_is_found_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    for folder, name in (("sources", "shop"), (".", "precious")):
        (tmp_path / folder / f"{name}.yaml").write_text(SOURCE.replace("NAME", name))
    assert load_source("shop", tmp_path / "sources").name == "shop"
    with pytest.raises(ParameterError, match=r"dataset was '\.\./precious': letters, digits"):
        load_source("../precious", tmp_path / "sources")


def test_a_source_beside_its_files_has_a_name(tmp_path: Path) -> None:
    for name in ("shop", "../shop"):
        (tmp_path / "source.json").write_text(json.dumps(yaml.safe_load(SOURCE.replace("NAME", name))))
        with pytest.raises(ParameterError, match="name was") if "/" in name else nullcontext():
            read_source(tmp_path / "source.json")
