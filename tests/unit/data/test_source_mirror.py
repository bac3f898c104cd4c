"""Tests of every source on the mirror: download, verify, read and count rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.data.corpus import NO_READER, read_corpus
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import Source, load_source

MIRROR = os.environ.get("EPIGRAM_MIRROR", "")
ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "data/sources"
ALL = [load_source(path.stem, SOURCES) for path in sorted(SOURCES.glob("*.yaml"))]
SERVED = {source.name: source for source in ALL if all(file.mirror is not None for file in source.files)}
NOT_SERVED = {"thucnews", "agnews", "aapd", "conll2003", "fce", "local", "hub", "sql", "pocket_zh", "pocket_en"}

pytestmark = [
    pytest.mark.mirror,
    pytest.mark.skipif(not Path(MIRROR or "/nowhere").is_dir(), reason="requires the data sets: set EPIGRAM_MIRROR"),
]


def manifest() -> dict[str, Any]:
    content = json.loads((Path(MIRROR) / "MANIFEST.json").read_text(encoding="utf-8"))
    return {entry["name"]: entry for entry in content["datasets"]}


def fetched(source: Source, folder: Path) -> Path:
    fetcher = Fetcher(folder / "arrivals", DownloadSettings(tries=1))
    for file in source.files:
        assert fetcher.fetch(file, folder / "raw").startswith(MIRROR)
    return folder / "raw"


def counts(frame: pl.DataFrame, split: str | None = None) -> dict[str, int]:
    rows = frame if split is None else frame.filter(split=split)
    return dict(rows["label"].value_counts().iter_rows())


def test_every_source_but_those_is_served() -> None:
    assert {source.name for source in ALL} - set(SERVED) == NOT_SERVED


@pytest.mark.parametrize("name", SERVED)
def test_a_source_of_the_mirror(name: str, tmp_path: Path) -> None:
    source = SERVED[name]
    raw = fetched(source, tmp_path)
    if source.read.get("reader", NO_READER) == NO_READER:
        assert {path.name for path in raw.iterdir()} == {file.path for file in source.files}
        return
    frame = read_corpus(source, raw)  # checks the declared number of rows
    assert source.rows
    drawn = source.sample.resplit if source.sample else {}
    assert set(frame["split"].unique()) == set(drawn or source.splits or [None])
    assert frame["text"].str.strip_chars().eq("").sum() == 0
    assert frame["line"].min() >= 1
    if source.task != "tokens":
        found = frame["label"] if source.task == "single" else frame["labels"].explode()
        assert set(found.unique()) == set(source.labels)
    if "tokens" in frame.columns:
        assert frame.select(pl.col("tokens").list.len().eq(pl.col("token_labels").list.len()).all()).item()


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("chnsenticorp", {"0": "negative", "1": "positive"}),
        ("sst2", {"0": "negative", "1": "positive"}),
        (
            "sst5",
            {"0": "very negative", "1": "negative", "2": "neutral", "3": "positive", "4": "very positive"},
        ),
    ],
)
def test_labels_are_as_often_as_the_manifest_says(name: str, names: dict[str, str], tmp_path: Path) -> None:
    frame = read_corpus(SERVED[name], fetched(SERVED[name], tmp_path))
    expected = manifest()[{"sst5": "sst"}.get(name, name)]["labels"]
    for split, labels in expected.items():
        assert counts(frame, split) == {names.get(label, label): count for label, count in labels.items()}


def test_the_pieces_of_thucnews_and_agnews_add_up(tmp_path: Path) -> None:
    titles = read_corpus(SERVED["thucnews_116k"], fetched(SERVED["thucnews_116k"], tmp_path / "thucnews"))
    union = manifest()["thucnews"]["labels"]["union"]
    assert counts(titles, "train") == {label.split()[1]: count for label, count in union.items()}
    news = read_corpus(SERVED["agnews_43k"], fetched(SERVED["agnews_43k"], tmp_path / "agnews"))
    assert sorted(counts(news, "train").values()) == sorted(
        manifest()["agnews"]["labels"]["union of all four"].values()
    )


def test_the_sentences_of_sst_are_those_of_the_paper(tmp_path: Path) -> None:
    """Multi-head attention labeler, Table 5; the paper counts three more words because it splits at no-break spaces."""
    frame = read_corpus(SERVED["sst"], fetched(SERVED["sst"], tmp_path))
    assert counts(frame, "train") == {"O": 1_624, "N": 3_310, "P": 3_610}
    assert counts(frame, "dev") == {"O": 229, "N": 428, "P": 444}
    assert counts(frame, "test") == {"O": 389, "N": 912, "P": 909}
    words = frame.group_by("split").agg(pl.col("tokens").list.len().sum())
    assert dict(words.iter_rows()) == {"train": 163_563, "dev": 21_274, "test": 42_405}


def test_the_token_labels_of_sst_are_close_to_the_counts_of_the_paper(tmp_path: Path) -> None:
    """Multi-head attention labeler, Table 5, prints 33,128 O, 3,488 N and 5,789 P; no source prints the exact rule."""
    frame = read_corpus(SERVED["sst"], fetched(SERVED["sst"], tmp_path)).filter(split="test")
    assert dict(frame["token_labels"].explode().value_counts().iter_rows()) == {"O": 33_090, "N": 3_620, "P": 5_695}


def test_no_label_of_reuters_is_lost(tmp_path: Path) -> None:
    frame = read_corpus(SERVED["reuters"], fetched(SERVED["reuters"], tmp_path))
    expected = manifest()["reuters"]["labels"]
    kept = SERVED["reuters"].labels
    for split in ("train", "test"):
        found = dict(frame.filter(split=split)["labels"].explode().value_counts().iter_rows())
        assert found == {label: count for label, count in expected[split].items() if label in kept}


def test_the_embedded_corpora() -> None:
    for name in ("pocket_zh", "pocket_en"):
        source = load_source(name, SOURCES)
        frame = read_corpus(source, ROOT / "data/pocket")
        assert set(frame["label"]) == set(source.labels)
        marked = frame.filter(pl.col("token_labels").list.set_difference(["O"]).list.len() > 0)
        assert marked.height > frame.height // 2
