"""Tests of source files: valid content, and the errors for invalid files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from epigram.core.errors import InputMissingError, ParameterError
from epigram.data.corpus import NO_READER, ReaderOptions
from epigram.data.readers import KINDS
from epigram.data.sources.source import RowSample, load_source, read_source

SOURCES = Path(__file__).parents[3] / "data/sources"
NAMES = sorted(path.stem for path in SOURCES.glob("*.yaml"))
GOOD: dict[str, Any] = {
    "name": "toy",
    "about": "a toy",
    "language": "en",
    "task": "single",
    "licence": "none",
    "files": [{"path": "train.csv", "url": "https://example.org/train.csv"}],
    "read": {"reader": "csv"},
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(GOOD | changes, allow_unicode=True), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_source_of_the_repository_is_sound(name: str) -> None:
    source = load_source(name, SOURCES)
    reader = source.read.get("reader", NO_READER)
    assert reader in {*KINDS, NO_READER}
    assert (reader == NO_READER) == (source.task == "files")
    for file in source.files:
        values = source.read | file.read
        known = {
            *ReaderOptions.__dataclass_fields__,
            *(KINDS[reader].__dataclass_fields__ if reader in KINDS else ()),
        }
        assert values.get("reader") != reader or set(values) <= known
        for address in file.addresses:
            assert address.startswith(("https://", "hf://", "sqlite://"))
            assert "/master/" not in address
            assert "/main/" not in address
        assert file.mirror is None or file.sha256 is not None
        assert not (file.mirror or "").endswith(".gz") or file.mirror_sha256 is not None
    named = {value for values in source.splits.values() for value in values}
    if reader in {"lines", "conll", "m2", "trees"} and source.splits:
        read = {file.path for file in source.files if file.read.get("reader") != NO_READER}
        assert named == read


def test_the_sets_that_papers_and_users_need_are_there() -> None:
    assert {"thucnews", "thucnews_116k", "ced", "mr", "chnsenticorp", "cold", "sst2", "sst", "agnews"} <= set(NAMES)
    assert {"agnews_43k", "20newsgroups", "newsgroups_4", "amazon_4", "sogou_4", "nlpcc2017", "reuters"} <= set(NAMES)
    assert {"dmsp_agnews", "dmsp_newsgroups", "dmsp_amazon", "dmsp_sogou"} <= set(NAMES)
    assert {"aapd", "aapd_test", "dbpedia_small", "ud_english_ewt", "ud_chinese_gsd", "hanzi", "xinhua"} <= set(NAMES)
    assert {"embeddings", "pocket_zh", "pocket_en", "conll2003", "fce", "local", "hub", "sql"} <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("dmsp_")])
def test_the_data_of_dmsp_are_1000_texts_of_each_class_split_at_random(name: str) -> None:
    assert load_source(name, SOURCES).sample == RowSample(per_class=1_000, resplit={"train": 0.85, "test": 0.15})


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    for name in NAMES:
        source = load_source(name, SOURCES)
        (tmp_path / "source.json").write_text(json.dumps(asdict(source), ensure_ascii=False), encoding="utf-8")
        assert read_source(tmp_path / "source.json") == source


def test_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"dataset 'thucnew' is not in .*; did you mean 'thucnews'\?"):
        load_source("thucnew", SOURCES)
    with pytest.raises(InputMissingError, match=r"toy\.yaml is missing"):
        read_source(tmp_path / "toy.yaml")


def test_numbers_are_taken_for_label_names(tmp_path: Path) -> None:
    assert read_source(write(tmp_path, labels=[1, 2])).labels == ["1", "2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lisence": "x"}, r"toy\.yaml: lisence is not a setting: did you mean 'licence'\?"),
        ({"language": "fr"}, r"toy\.yaml: language is 'fr'"),
        ({"splits": {"dve": ["train.csv"]}}, "splits"),
        ({"name": "other"}, r"name is 'other'; expected 'toy', the name of the file"),
        ({"labels": ["a", "a"]}, "labels has duplicates: a"),
        ({"splits": {"train": ["x"], "dev": ["x"]}}, "splits has duplicates: x"),
        ({"labels": ["a", "b"], "label_names": {"a": "A"}}, "label_names lacks the label 'b'; name every label"),
        ({"labels": ["a"], "label_names": {"a": "A", "c": "C"}}, "label_names has 'c', which is not a label"),
        ({"label_names": {"a": "A", "b": "A"}}, "label_names has two labels with the same name"),
        ({"label_names": {"a": " "}}, "label_names has the name ' '; expected a name without control characters"),
        ({"label_names": {"a": "A\n"}}, r"label_names has the name 'A\\n'; expected a name without control"),
        ({"keep": ["line"]}, "reserved column names: line"),
        ({"sample": {"per_class": 0}}, r"sample\.per_class is '?0"),
        (
            {"sample": {"resplit": {"train": 0.8, "test": 0.1}}},
            r"sample\.resplit is .*; expected shares with train",
        ),
        ({"sample": {"resplit": {"dev": 0.5, "test": 0.5}}}, r"sample\.resplit is .*; expected shares with train"),
        ({"sample": {"per_class": 5}, "task": "multi"}, r"sample draws rows of each label; it needs task: single"),
        ({"files": [{"path": "../x", "url": "https://e.org"}]}, r"files\.0\.path is '\.\./x'"),
        ({"files": [{"path": "source.json", "url": "https://e.org"}]}, r"files\.0\.path is 'source\.json'"),
        ({"files": [{"path": "x", "mirror": "../../etc/passwd"}]}, r"files\.0\.mirror is '\.\./\.\./etc/passwd'"),
        ({"files": [{"path": "x", "mirror": "/etc/passwd"}]}, r"files\.0\.mirror is '/etc/passwd'"),
        ({"files": [{"path": "x", "mirror": "a/../../x"}]}, r"files\.0\.mirror is"),
        ({"files": [{"path": "x", "url": "https://e.org", "max_bytes": 0}]}, r"files\.0\.max_bytes is '?0"),
        ({"files": [{"path": "x"}]}, r"files\.0: set either url"),
        ({"files": [{"path": "x", "local": "x", "url": "https://e.org"}]}, r"files\.0: set either url"),
        ({"files": [{"path": "x", "url": "https://e.org", "query": "SELECT 1"}]}, "a database address needs a query"),
        ({"files": [{"path": "x", "url": "sqlite:///x.db"}]}, "a database address needs a query"),
        ({"keep": ["row"]}, "reserved column names: row"),
        ({"keep": ["in_train", "spans"]}, "reserved column names: in_train, spans"),
        ({"keep": ["fold", "batch"]}, "reserved column names: batch, fold"),
        (
            {"files": [{"path": "x", "local": "texts/x.csv"}]},
            r"files\.0\.local is 'texts/x\.csv'; put .* data/local/x",
        ),
        (
            {"files": [{"path": "x", "local": "data/local/../x"}]},
            r"files\.0\.local is 'data/local/\.\./x'; put the file",
        ),
        ({"files": [{"path": "x", "local": "/etc/x"}]}, r"files\.0\.local is '/etc/x'; put the file into data/local"),
        (
            {"files": [{"path": "x", "url": "https://e.org"}] * 2},
            r"files\.1\.path is 'x', which conflicts with the path 'x'",
        ),
    ],
)
def test_a_wrong_source_is_explained(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        read_source(write(tmp_path, **changes))


@pytest.mark.parametrize("content", [b"name: [", b"\xff\xfe", b"just words", b""])
def test_what_is_no_source_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "toy.yaml").write_bytes(content)
    with pytest.raises(ParameterError, match=r"toy\.yaml"):
        read_source(tmp_path / "toy.yaml")


@pytest.mark.parametrize(
    "paths", [("a", "./a"), ("a//b", "a/b"), ("a", "a/b"), ("a/b", "a"), ("é", "e\u0301"), ("A", "a")]
)
def test_files_that_would_overwrite_each_other_are_refused(paths: tuple[str, str], tmp_path: Path) -> None:
    files = [{"path": path, "url": "https://e.org"} for path in paths]
    with pytest.raises(ParameterError, match=r"files\.1\.path is .* conflicts with the path"):
        read_source(write(tmp_path, files=files))


@pytest.mark.parametrize("path", ["./source.json", "SOURCE.json", "a/" * 2000 + "b", "x" * 201])
def test_names_of_files_that_cannot_be_written_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"files\.0\.path is .*; expected a path below data/raw"):
        read_source(write(tmp_path, files=[{"path": path, "url": "https://e.org"}]))
