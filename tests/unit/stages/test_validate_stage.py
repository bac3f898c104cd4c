"""Tests of the validate stage as a user runs it: a folder of raw files in, a folder of splits and a report out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from epigram.core.errors import DataError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import RowSample, load_source
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import Validated, validate
from epigram.stages import validate as stage

ROOT = Path(__file__).parents[3]
OUTPUTS = ["corpus.json", "dev.parquet", "report.json", "test.parquet", "train.parquet"]
ROWS = [(f"text {place}", "good" if place % 2 else "bad") for place in range(40)]


def raw_folder(path: Path, rows: list[tuple[str, str]]) -> Path:
    """Write the outputs of download: the raw file and source.json."""
    path.mkdir()
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in rows]
    (path / "toy.jsonl").write_text("".join(lines), encoding="utf-8")
    about = {"name": "toy", "about": "a toy", "language": "en", "task": "single", "licence": "none"}
    how = {"labels": ["bad", "good"], "files": [{"path": "toy.jsonl", "local": "toy"}], "read": {"reader": "jsonl"}}
    (path / "source.json").write_text(json.dumps(about | how), encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with a params.yaml and return it."""
    (tmp_path / "params.yaml").write_text(
        "dataset: toy\nseeds: [0]\nviews: {}\nsystems: {}\nvalidate: {folds: 0}\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(raw: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["validate", str(raw), str(out)])
    stage.main()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("f1:godo", "metric has 'godo', which is not a label: did you mean 'good'?"),
        ("{cost: {good: {worse: 2}}}", "metric.cost has 'worse', which is not a label: allowed: bad, good"),
        ("token_f1", "metric is 'token_f1', but texts have labels of their own; set it to auto"),
        ("f2", "params.yaml: metric is 'f2'; expected auto, "),
    ],
)
def test_a_metric_that_does_not_suit_the_data_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, metric: str, message: str
) -> None:
    with (here / "params.yaml").open("a", encoding="utf-8") as params:
        params.write(f"metric: {metric}\n")
    monkeypatch.setattr(sys, "argv", ["validate", str(raw_folder(here / "raw", ROWS)), str(here / "out")])
    with pytest.raises(ParameterError) as refused:
        stage.main.__wrapped__()
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)
    assert not (here / "out").exists()


def test_a_sound_corpus_becomes_three_splits(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(raw_folder(here / "raw", ROWS), here / "out", monkeypatch)
    assert sorted(path.name for path in (here / "out").iterdir()) == OUTPUTS
    corpus = json.loads((here / "out/corpus.json").read_text(encoding="utf-8"))
    assert corpus["rows"] == {"train": 32, "dev": 4, "test": 4}
    assert corpus["labels"] == ["bad", "good"]
    assert corpus["dev_in_train"] == corpus["test_in_train"] == 0
    assert any("no dev split: 4 of 40" in note for note in corpus["notes"])
    train, test = (pl.read_parquet(here / f"out/{name}.parquet") for name in ("train", "test"))
    shared = {"row": pl.Int64, "text": pl.String, "label": pl.String, "file": pl.String, "line": pl.Int64}
    assert (train.schema, test.schema) == (shared, shared | {"in_train": pl.Boolean})
    assert train["row"].is_sorted() and train["line"].equals(train["row"] + 1)


def test_two_runs_write_the_same_bytes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = raw_folder(here / "raw", ROWS)
    for out in ("one", "two"):
        run(raw, here / out, monkeypatch)
    for name in OUTPUTS:
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()


def test_bad_rows_are_refused_together_and_nothing_is_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = raw_folder(here / "raw", [*ROWS, ("", "good"), ("nul\0", "bad"), ("slip", "god")])
    with pytest.raises(SystemExit) as ended:
        run(raw, here / "out", monkeypatch)
    assert ended.value.code == 65
    first, *details = capsys.readouterr().err.strip().split("\n")
    assert first.startswith("error: 3 violations in toy.jsonl: 1 × empty text, 1 × NUL byte, 1 × unknown label")
    assert [detail.split(" ")[-2:] for detail in details[:3]] == [
        ["empty", "text"],
        ["NUL", "byte"],
        ["unknown", "label"],
    ]
    assert sorted(path.name for path in here.iterdir()) == ["params.yaml", "raw"]


def test_the_module_runs_as_a_command(here: Path) -> None:
    raw_folder(here / "raw", ROWS[:1] * 5)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "epigram.stages.validate", "raw", "out"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 65
    assert "only one class" in done.stderr
    assert "Traceback" not in done.stderr


def source(**changes: object) -> SimpleNamespace:
    about = {
        "name": "toy",
        "language": "en",
        "task": "single",
        "labels": ["a", "b"],
        "distinct": None,
        "columns_of_text": ["text"],
        "join": " ",
        "sample": None,
        "files": [],
        "label_names": {},
        "hierarchy": "",
        "keep": [],
        "folds": 0,
    }
    return SimpleNamespace(**about | changes)


def corpus(*rows: tuple[object, ...]) -> pl.LazyFrame:
    frame = pl.DataFrame(rows, schema={"text": pl.String, "label": pl.String, "split": pl.String}, orient="row")
    return frame.lazy().with_columns(file=pl.lit("a.tsv"), line=pl.int_range(pl.len()) + 1)


SPLIT = (
    ("w", "a", "train"),
    ("x", "b", "train"),
    ("y", "b", "train"),
    ("y ", "b", "dev"),
    ("z", "a", "test"),
    ("x", "a", "test"),
)


def test_leaks_are_flagged_row_by_row_and_said() -> None:
    result = validate(corpus(*SPLIT), source(), ValidateSettings(min_per_class=1))
    assert result.parts["dev"].collect()["in_train"].to_list() == [True]
    assert result.parts["test"].collect()["in_train"].to_list() == [False, True]
    assert (result.corpus.dev_in_train, result.corpus.test_in_train) == (1, 1)
    assert "1 of 2 test rows have a text that is also in train; 0 of them with the same label." in result.corpus.notes
    assert "dev has no row of 1 label: a." in result.corpus.notes


@pytest.mark.parametrize(
    ("sample", "notes"),
    [
        (None, []),
        (
            RowSample(per_class=1000),
            ["At most 1000 training rows of each label were drawn at random (sample, seed 0)."],
        ),
        (
            RowSample(per_class=2, resplit={"train": 0.85, "test": 0.15}, seed=7),
            [
                "At most 2 training rows of each label were drawn at random (sample, seed 7).",
                "The rows of each label were split at random, not as in the source: 85% train, 15% test "
                "(sample, seed 7).",
            ],
        ),
    ],
)
def test_a_random_sample_is_said(sample: RowSample | None, notes: list[str]) -> None:
    result = validate(corpus(*SPLIT), source(sample=sample), ValidateSettings(min_per_class=1))
    assert [note for note in result.corpus.notes if "(sample" in note] == notes


def test_dropping_leaks_takes_them_out_of_train() -> None:
    rows = [*SPLIT, ("v", "b", "train")]
    result = validate(corpus(*rows), source(), ValidateSettings(min_per_class=1, on_leak="drop"))
    assert result.parts["train"].collect()["text"].to_list() == ["w", "v"]
    assert result.corpus.test_in_train == 0
    assert [pair["exact"] for pair in result.report["leaks"]["found"]] == [1, 1, 0]
    assert [pair["exact"] for pair in result.report["leaks"]["left"]] == [0, 0, 0]
    assert any("2 dropped (validate.on_leak: drop)" in note for note in result.corpus.notes)
    assert "No test row has a text that is also in train (in the source: 1 of 2)." in result.corpus.notes


def test_failing_on_leaks_names_them() -> None:
    with pytest.raises(
        DataError, match=r"2 × also in dev or test; .* set validate.on_leak to drop in params.yaml\na.tsv:2"
    ):
        validate(corpus(*SPLIT), source(), ValidateSettings(min_per_class=1, on_leak="fail"))


def test_a_missing_text_is_an_empty_text() -> None:
    rows = [*((f"t{place}", "ab"[place % 2], None) for place in range(20)), (None, "a", None)]
    with pytest.raises(DataError, match=r'a\.tsv:21 text="" empty text'):
        validate(corpus(*rows), source(), ValidateSettings())
    result = validate(corpus(*rows), source(), ValidateSettings(on_empty="drop"))
    assert sum(result.corpus.rows.values()) == 20


def test_train_can_be_capped() -> None:
    rows = [(f"t{place}", "ab"[place % 2], None) for place in range(100)]
    result = validate(corpus(*rows), source(), ValidateSettings(max_train_rows=20))
    assert result.corpus.rows == {"train": 20, "dev": 10, "test": 10}
    assert "Train is a stratified sample of 20 of 80 rows (validate.max_train_rows, seed 0)." in result.corpus.notes


def test_labels_that_are_numbers_are_ordered_as_numbers() -> None:
    rows = [(f"t{place}", str(place % 12), None) for place in range(60)]
    result = validate(corpus(*rows), source(labels=[]), ValidateSettings())
    assert result.corpus.labels == [str(label) for label in range(12)]


def test_many_labels_a_row_and_further_columns_go_along() -> None:
    rows = [(f"t{place}", ["a", "b"][: place % 3], ["x"]) for place in range(30)]
    frame = pl.LazyFrame(rows, schema=["text", "labels", "topics"], orient="row").with_columns(
        split=pl.lit(None, pl.String), file=pl.lit("a.jsonl"), line=pl.int_range(pl.len()), channel=pl.lit("web")
    )
    result = validate(frame, source(task="multi", keep=["topics", "channel"]), ValidateSettings())
    assert result.corpus.slices == ["channel"]  # a list has no slice
    assert result.parts["train"].collect().schema == {
        "row": pl.Int64,
        "text": pl.String,
        "labels": pl.List(pl.String),
        "topics": pl.List(pl.String),
        "file": pl.String,
        "line": pl.Int64,
        "channel": pl.String,
    }
    assert result.report["classes"]["train"]["a"] > result.report["classes"]["train"]["b"]


def test_the_separator_of_levels_is_in_a_label() -> None:
    rows = [(f"t{place}", ["a/b", "a/c"][place % 2], "train") for place in range(400)]
    assert validate(corpus(*rows), source(labels=[], hierarchy="/"), ValidateSettings()).corpus.hierarchy == "/"
    with pytest.raises(ParameterError, match=r"^data/sources/toy\.yaml: hierarchy is '>', which no label contains"):
        validate(corpus(*rows), source(labels=[], hierarchy=">"), ValidateSettings())


def test_what_cannot_be_classified_is_refused() -> None:
    with pytest.raises(DataError, match="toy has no rows"):
        validate(corpus(), source(), ValidateSettings())
    with pytest.raises(ParameterError, match="has no labelled texts"):
        validate(corpus(*SPLIT), source(task="files"), ValidateSettings())


@pytest.fixture
def mirrored(tmp_path: Path) -> Callable[[str], Validated]:
    """Return a function that fetches a real corpus from the mirror and validates it."""
    if not os.environ.get("EPIGRAM_MIRROR"):
        pytest.skip("requires the data sets: set EPIGRAM_MIRROR to their folder")

    def validated(name: str) -> Validated:
        about = load_source(name, ROOT / "data/sources")
        fetcher = Fetcher(tmp_path / "arrivals", DownloadSettings())
        for file in about.files:
            fetcher.fetch(file, tmp_path / name)
        return validate(read_corpus(about, tmp_path / name).lazy(), about, ValidateSettings())

    return validated


@pytest.mark.mirror
def test_chnsenticorp_shows_what_the_audit_found(mirrored: Callable[[str], Validated]) -> None:
    result = mirrored("chnsenticorp")
    assert (result.corpus.dev_in_train, result.corpus.test_in_train) == (338, 331)
    assert result.report["leaks"]["found"][0]["same_label"] == 325
    assert result.report["conflicts"]["texts"]["train"] == 24
    assert result.report["rows"]["train"] - result.report["repeats"]["train"] == 8249


@pytest.mark.mirror
def test_cold_shows_what_the_audit_found(mirrored: Callable[[str], Validated]) -> None:
    result = mirrored("cold")
    assert (result.corpus.dev_in_train, result.corpus.test_in_train) == (30, 39)
    assert list(result.report["classes"]["test"].values()) == [3216, 2107]


@pytest.mark.mirror
def test_ced_is_cut_without_a_leak(mirrored: Callable[[str], Validated]) -> None:
    result = mirrored("ced")
    assert result.corpus.rows == {"train": 2709, "dev": 339, "test": 339}
    assert sum(result.report["repeats"].values()) == 70  # 58 if leading and trailing whitespace counted
    assert all(pair["normalised"] == 0 for pair in result.report["leaks"]["left"])


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=15), st.integers(0, 2)
)
@budget(max_examples=40, deadline=None)
def test_nasty_texts_end_in_sound_splits_or_in_one_clear_error(texts: list[str], seed: int) -> None:
    rows = [*((text, "ab"[place % 2], None) for place, text in enumerate(texts))]
    rows += [(f"{label} {place}", label, None) for place in range(6) for label in "ab"]
    choices = ValidateSettings(on_empty="drop", on_conflict="drop", on_duplicate="drop", split_seed=seed)
    try:
        result = validate(corpus(*rows), source(), choices)
    except DataError as error:
        assert any("\0" in text for text in texts)
        assert "NUL byte" in str(error)
        return
    numbers = pl.concat(part.collect()["row"] for part in result.parts.values())
    assert numbers.is_unique().all()
    assert result.corpus.dev_in_train == result.corpus.test_in_train == 0
    assert json.loads(json.dumps(result.report)) == result.report
