"""Tests of settings: invalid values in params.yaml are refused, and paths are compared after they are resolved."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from epigram.core.errors import ParameterError
from epigram.core.files import is_inside
from epigram.core.settings import SECTIONS, Params, dataset_of
from epigram.data.sources.source import load_source, read_source
from epigram.models.settings import SharedTraining
from epigram.pruning.settings import PruneSettings
from epigram.runner.workspace.settings import Settings, load
from epigram.text.settings import EncodeSettings, ViewSettings, read_view

PARAMS = """\
dataset: shop
seeds: [0, 1]
views: {token: {tokenizer: token}}
systems: {textcnn: {view: token}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds: [0, 1]", "seeds: [0, 0]", r"seeds is \[0, 0\]"),
        ("seeds: [0, 1]", "seeds: [0, -1]", r"seeds.*-1"),
        ("systems: {textcnn: {view: token}}", "systems: {}", "systems is {}; expected one or more systems"),
        ("textcnn:", "'a; rm -rf x':", r"'a; rm -rf x'; expected letters, digits"),
        ("tokenizer: token}", "checkpoint: bert, vectors: a.txt}", "has vectors and checkpoint"),
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
    assert is_inside(tmp_path / path, tmp_path / "data" / "local") is inside


@pytest.mark.parametrize("name", ["../precious", "/precious", ".hidden", "-x", "a b", "", "x" * 101, 7, None])
def test_a_data_set_has_a_name_wherever_it_is_named(tmp_path: Path, name: object) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(PARAMS)
    assert dataset_of(path) == load(path).dataset == "shop"
    path.write_text(PARAMS.replace("dataset: shop", f"dataset: {json.dumps(name)}"))
    for read in (dataset_of, load):
        with pytest.raises(ParameterError, match=r"params\.yaml: dataset is"):
            read(path)


@pytest.mark.parametrize("key", ["retrain: {systems: [%s]}", "systems: {textcnn: {view: %s}}"])
def test_a_system_and_a_view_have_names(tmp_path: Path, key: str) -> None:
    path = tmp_path / "params.yaml"
    others = [line for line in PARAMS.splitlines() if line.split(":")[0] != key.split(":", maxsplit=1)[0]]
    for name in ("token", "../token"):
        path.write_text("\n".join([*others, key % name]))
        with (
            pytest.raises(ParameterError, match=r"is '\.\./token'; expected letters") if "/" in name else nullcontext()
        ):
            load(path)


def test_a_stage_reads_the_sections_that_it_declares(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(f"{PARAMS}prune: {{epochs: 3}}\n")
    params = Params.read(("seeds", "prune", "encode", "views.{key}"), key="token", path=path)
    assert params.seeds == [0, 1]
    assert params.section("prune", PruneSettings) == PruneSettings(epochs=3)
    assert params.section("encode", EncodeSettings) == EncodeSettings()
    assert params.entry("views", ViewSettings) == read_view(params) == ViewSettings(tokenizer="token")


def test_a_section_that_a_stage_does_not_declare_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(PARAMS)
    params = Params.read(("prune", "views.{key}"), key="token", path=path)
    for read in (
        lambda: params.seeds,
        lambda: params.section("encode", EncodeSettings),
        lambda: params.section("views", dict),
        lambda: params.entry("systems", dict),
        lambda: params.entry("prune", dict),
    ):
        with pytest.raises(LookupError, match=r"of params\.yaml, which its PARAMS do not declare"):
            read()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("drfit: {}", r"drfit is not a setting: did you mean 'drift'\?"),
        ("1: {}", r"1 is not a setting: allowed: augment, compare"),
        ("dataset: a b", "dataset is 'a b'; expected letters, digits"),
        ("systems: {mlp: {view: tokne}}", r"systems\.mlp\.view is 'tokne': did you mean 'token'\?"),
        ("seeds: [0, 0]", r"seeds is \[0, 0\]; expected one or more"),
        ("seeds: [0, x]", r"seeds\.1 is 'x'; expected"),
        ("seeds: 3", "seeds is 3; expected"),
        ("prune: {treshold: 1}", r"prune\.treshold is not a setting: did you mean 'threshold'\?"),
        ("prune: {epochs: 0}", r"prune\.epochs is 0; expected"),
        ("prune:", "prune is None; expected"),
        ("views: 3", "views is 3; expected"),
        ("views: {tokens: {}, token: 3}", r"views\.token is 3; expected"),
        ("views: {token: {tokeniser: token}}", r"views\.token\.tokeniser is not a setting: did you mean 'tokenizer'"),
        ("views: {token: {checkpoint: bert, vectors: a.txt}}", r"views\.token has vectors and checkpoint"),
        ("views: {tokens: {}}\nsystems: {}", r"views has no 'token': did you mean 'tokens'\?"),
    ],
)
def test_what_a_stage_cannot_read_is_named_by_its_key(tmp_path: Path, more: str, said: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(PARAMS), **yaml.safe_load(more)}))
    with pytest.raises(ParameterError, match=rf"^params\.yaml: {said}"):
        params = Params.read(("seeds", "prune", "views.{key}"), key="token", path=path)
        params.seeds, params.section("prune", PruneSettings), read_view(params)


def test_a_stage_names_every_section_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("dataset: shop\nviews: {}\n")
    with pytest.raises(ParameterError) as raised:
        Params.read((), path=path)
    assert str(raised.value) == "params.yaml: seeds is missing\nparams.yaml: systems is missing"


def test_a_mistake_in_another_section_is_found_before_a_run_and_not_by_the_stage(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(f"{PARAMS}drift: {{threshold: -1}}\n")
    assert Params.read(("seeds",), path=path).seeds == [0, 1]
    with pytest.raises(ParameterError, match=r"params\.yaml: drift\.threshold is -1"):
        load(path)


def test_every_section_is_typed_before_a_run() -> None:
    assert {field.name for field in fields(Settings)} == set(SECTIONS)


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
    with pytest.raises(ParameterError, match=r"dataset is '\.\./precious'; expected letters, digits"):
        load_source("../precious", tmp_path / "sources")


def test_a_source_beside_its_files_has_a_name(tmp_path: Path) -> None:
    for name in ("shop", "../shop"):
        (tmp_path / "source.json").write_text(json.dumps(yaml.safe_load(SOURCE.replace("NAME", name))))
        with pytest.raises(ParameterError, match="name is") if "/" in name else nullcontext():
            read_source(tmp_path / "source.json")


def test_null_epochs_are_each_systems_own_and_other_nulls_are_values() -> None:
    values = {"train": {"epochs": None, "clip": None}}
    assert Params(("train",), values).value("train", SharedTraining, {}) == {"clip": None}
