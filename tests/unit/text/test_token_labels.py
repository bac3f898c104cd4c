"""Tests of token labels: validation, inference from them, statistics, and alignment with the tokens of a view."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from epigram.core.errors import DataError, ParameterError
from epigram.data.corpus import read_corpus
from epigram.data.sources.fetch import Fetcher
from epigram.data.sources.settings import DownloadSettings
from epigram.data.sources.source import File, load_source
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import Validated, validate
from epigram.report.data_page import render_page
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.settings import ViewSettings
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import (
    load,
    vocabulary_of,
)
from tests.support.text_samples import EN, encoded_in
from tests.support.token_labels import LABELLED, NAMES

ROOT = Path(__file__).parents[3]
COLUMNS = ["text", pl.lit("pos").alias("label"), "tokens", "token_labels"]


def judged(
    *rows: tuple[object, ...], task: str = "tokens", labels: tuple[str, ...] = (), text: str | None = None
) -> Validated:
    """Validate `rows`, whose texts are their joined tokens; `text` replaces the text of the last row."""
    kinds = {"tokens": pl.List(pl.String), "token_labels": pl.List(pl.String), "split": pl.String}
    frame = pl.DataFrame(rows, schema=kinds if task == "tokens" else kinds | {"label": pl.String}, orient="row")
    joined = frame["tokens"].list.join(" ").fill_null("no words").to_list()
    texts = [*joined[:-1], text or joined[-1]]
    frame = frame.with_columns(pl.Series("text", texts), file=pl.lit("a.conll"), line=pl.int_range(pl.len()) + 1)
    about = {
        "name": "toy",
        "language": "en",
        "labels": list(labels),
        "label_names": {},
        "distinct": None,
        "sample": None,
        "files": [],
        "columns_of_text": ["text"],
        "join": " ",
        "hierarchy": "",
    }
    source = SimpleNamespace(task=task, keep=(), **about)
    return validate(frame.lazy(), source, ValidateSettings(min_per_class=1))  # type: ignore[arg-type]


SPLITS = [
    (["a", "b"], ["B", "A"], "train"),
    (["b", "c"], ["B", "B"], "train"),
    (["d"], ["C"], "train"),
    (["e"], ["C"], "dev"),
    (["f"], ["C"], "dev"),
    (["g"], ["A"], "test"),
]


def test_texts_are_labelled_by_their_tokens_where_only_those_are_labelled() -> None:
    result = judged(*SPLITS)
    about = result.corpus
    assert (about.task, about.tokens_only, about.labels) == ("single", True, ["plain", "marked"])
    assert about.token_labels == ["B", "A", "C"], "the most frequent of train first, though C leads in all splits"
    assert result.parts["train"].collect()["label"].to_list() == ["marked", "plain", "marked"]
    assert any("plain if all its tokens have the label B" in note for note in about.notes)


def test_the_default_label_is_o_wherever_it_stands() -> None:
    rows = [(["a", "b", "c"], ["Z", "Z", "O"], "train"), (["x"], ["A"], "dev"), (["y"], ["Z"], "test")]
    with pytest.raises(DataError, match="1 × token label missing from train"):
        judged(*rows)
    rows[1] = (["x"], ["O"], "dev")
    assert judged(*rows).corpus.token_labels == ["O", "Z"]


def test_texts_with_labels_of_their_own_keep_them() -> None:
    rows = [(*row, label) for row, label in zip(SPLITS, "xyxyxy", strict=True)]
    result = judged(*rows, task="single", labels=("y", "x"))
    assert (result.corpus.labels, result.corpus.tokens_only) == (["y", "x"], False)
    assert result.corpus.token_labels == ["B", "A", "C"]
    assert result.report["token_classes"]["train"] == {"B": 3, "A": 1, "C": 1}
    assert result.report["token_classes"]["test"] == {"B": 0, "A": 1, "C": 0}
    assert "<h3>Token labels</h3>" in render_page(result.report)
    assert '<th scope="row">B</th><td>3 (60.0%)</td><td>0 (0.0%)</td>' in render_page(result.report)


def test_faults_of_token_labels_are_one_clear_line_each() -> None:
    torn = (["v", "w", "x", "y", "z"], ["A", "A", "A", "A"], "train")
    with pytest.raises(DataError, match=r'a\.conll:7 token_labels="5 tokens and 4 token labels" different numbers'):
        judged(*SPLITS, torn)
    with pytest.raises(DataError, match=r"a\.conll:7 tokens.* missing token"):
        judged(*SPLITS, (["v", None], ["A", "A"], "train"))
    with pytest.raises(DataError, match=r"a\.conll:7 label no label"):
        judged(*SPLITS, (None, None, "train"))
    with pytest.raises(DataError, match='token_labels="O" only one class'):
        judged((["a"], ["O"], "train"), (["b"], ["O"], "dev"), (["c"], ["O"], "test"))


def test_tokens_that_do_not_spell_their_text_are_refused(encoded: Any) -> None:
    rows = [(*row, label) for row, label in zip(SPLITS, "xyxyxy", strict=True)]
    assert judged(*rows, (["d", "e f"], ["A", "B"], "train", "x"), task="single").parts["train"].height == 4
    with pytest.raises(DataError, match=r'do not match the text; fix the data\na\.conll:7 tokens="no ``"'):
        judged(*rows, (["no", "``"], ["A", "A"], "train", "x"), task="single", text='no "')
    torn = {**LABELLED, "dev": [('a "film"', "pos", ["a", "``", "film", "''"], ["O"] * 4)]}
    with pytest.raises(DataError, match="the tokens of row 3 do not match its text"):
        encoded(torn, "en", token_labels=NAMES)


def test_a_text_is_read_alike_with_and_without_labels_of_its_tokens(encoded: Any) -> None:
    text, tokens = "They didn't  see the 3.5 stars", ["They", "did", "n't", "see the", "3", ".5", "stars"]
    rows = {
        split: [(text, "neg", tokens, ["O", "O", "NEG", "O", "POS", "O", "O"])] for split in ("train", "dev", "test")
    }
    for tokenizer in ("token", "wordpiece"):
        settings = ViewSettings(tokenizer=tokenizer)
        view = encoded(rows, "en", settings, token_labels=NAMES)
        part = view.split("dev")
        plain = TextEncoder(load(view.tokenizer_json)).encode([text], 99)
        assert part.ids.values.tolist() == plain.ids.values.tolist()
        assert [NAMES[label] for label in part.token_labels if label > 0] == ["NEG", "POS"]


def test_a_source_of_token_labels_needs_a_reader_of_them() -> None:
    frame = pl.DataFrame({"text": ["a"], "split": ["train"], "file": ["x.csv"], "line": [1]})
    source = SimpleNamespace(name="toy", task="tokens", labels=[], label_names={}, distinct=None, sample=None, files=[])
    with pytest.raises(ParameterError, match=r"toy\.yaml: task is 'tokens', but the reader returns no token labels"):
        validate(frame.lazy(), source, ValidateSettings())  # type: ignore[arg-type]


CONLL = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nIt PRP B-NP O\n"
M2 = """S I has go
A 1 2|||R:VERB:SVA|||have|||REQUIRED|||-NONE-|||0

S Fine
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
"""


@pytest.mark.parametrize(("name", "content"), [("conll2003", CONLL), ("fce", M2)], ids=["conll2003", "fce"])
def test_joint_corpora_become_views(name: str, content: str, tmp_path: Path, pos: Path) -> None:
    splits: Any = {split: [f"{split}.txt"] for split in ("train", "dev", "test")}
    files = [File(path=f"{split}.txt", local="x") for split in splits]
    for file in files:
        (tmp_path / file.path).write_text(content)
    source = replace(load_source(name, ROOT / "data/sources"), files=files, splits=splits, rows={})
    result = validate(read_corpus(source, tmp_path).lazy(), source, ValidateSettings(min_per_class=1))
    names = result.corpus.token_labels
    rows = {name: part.collect().select(COLUMNS).rows() for name, part in result.parts.items()}
    part = encoded_in(tmp_path, pos, rows, "en", token_labels=names).split("test")
    assert names[0] == "O"
    assert [names[label] for label in part.token_labels] == [label for row in rows["test"] for label in row[3]]
    assert sum(label != "O" for row in rows["test"] for label in row[3]) == 1


def words_of(view: View, split: str) -> list[str]:
    """Return the words of a view with their labels, joined from its tokens."""
    part, vocabulary = view.split(split), vocabulary_of(load(view.tokenizer_json))
    assert part.words is not None
    assert part.token_labels is not None
    said: list[str] = []
    for row in range(len(part)):
        for t in range(part.ids.offsets[row], part.ids.offsets[row + 1]):
            piece = vocabulary[part.ids.values[t]].removeprefix("##")
            if part.token_labels[t] >= 0 or (part.words[t] == 0 and t == part.ids.offsets[row]):
                said.append(f"{part.words[t]} {NAMES[part.token_labels[t]] if part.token_labels[t] >= 0 else '-'} ")
            said[-1] += piece
    return said


@pytest.mark.parametrize("tokenizer", ["token", "wordpiece"])
def test_labels_stand_on_the_first_token_of_their_word(encoded: Any, tokenizer: Any) -> None:
    view = encoded(LABELLED, "en", ViewSettings(tokenizer=tokenizer), token_labels=NAMES)
    assert (view.token_labels, view.tokens_only, view.characters) == (NAMES, False, "")
    assert words_of(view, "train") == [
        "0 O a", "1 POS well-made", "2 O film", "0 O playing", "1 O is", "2 NEG dull", "0 O played", "1 POS well",
    ]  # fmt: skip
    part = view.split("train")
    assert (part.ids.values.shape, part.characters) == (part.words.shape, None)
    dev = view.split("dev")
    assert dev.ids.values[0] == view.unk_id, "words that give no token become one unknown token"
    assert (dev.words[0], dev.token_labels[0]) == (0, NAMES.index("NEG"))
    assert dev.ids.offsets[1] == 1
    assert set(dev.token_labels[1:]) == {-1}, "a text whose words have no labels is read all the same"
    assert set(dev.words[1:]) == {0}


def test_characters_are_labelled_by_their_words(encoded: Any) -> None:
    rows = {split: [("菜好吃", "pos", ["菜", "好吃"], ["O", "POS"])] for split in ("train", "dev", "test")}
    part = encoded(rows, "zh", token_labels=NAMES).split("dev")
    assert (part.words.tolist(), part.token_labels.tolist()) == ([0, 1, 1], [0, 2, -1])


def test_words_that_are_cut_off_do_not_occur(encoded: Any) -> None:
    view = encoded(LABELLED, "en", token_labels=NAMES, max_length=2)
    part = view.split("train")
    assert part.ids.lengths.tolist() == [2, 2, 2]
    assert part.words.tolist() == [0, 1, 0, 1, 0, 1]
    assert part.token_labels.tolist() == [0, 2, 0, 0, 0, 2]
    assert view.truncated == {"train": 2, "dev": 1, "test": 1}


def test_a_corpus_without_token_labels_has_none_in_its_views(encoded: Any) -> None:
    view = encoded(EN, "en")
    part = view.split("train")
    assert (view.token_labels, view.vectors) == ([], None)
    assert part.token_labels is part.words is part.characters is None


def test_batches_leave_no_trace(encoded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ViewSettings(tokenizer="wordpiece", characters=True)
    whole = encoded(LABELLED, "en", settings, token_labels=NAMES).fingerprint
    monkeypatch.setattr(ValidatedCorpus.batches, "__kwdefaults__", {"size": 1})
    assert encoded(LABELLED, "en", settings, token_labels=NAMES).fingerprint == whole


def test_touched_token_labels_are_refused(encoded: Any, tmp_path: Path) -> None:
    torn = {**LABELLED, "dev": [("a film", "pos", ["a", "film"], ["O"])]}
    with pytest.raises(DataError, match="row 3 has 2 tokens and 1 token labels: run dvc repro validate"):
        encoded(torn, "en", token_labels=NAMES)
    with pytest.raises(DataError, match=r"'POS' is not in corpus\.json"):
        encoded(LABELLED, "en", token_labels=["O", "NEG"])
    assert not (tmp_path / "out").exists()
    view = encoded(LABELLED, "en", token_labels=NAMES)
    labels = np.load(view.folder / "dev.token_labels.npy")
    np.save(view.folder / "dev.token_labels.npy", labels + 9)
    with pytest.raises(DataError, match="contains values outside -1 to 2"):
        view.split("dev")


@pytest.mark.mirror
def test_the_words_of_sst(tmp_path: Path, pos: Path) -> None:
    if not os.environ.get("EPIGRAM_MIRROR"):
        pytest.skip("requires the data sets: set EPIGRAM_MIRROR to their folder")
    source, fetcher = load_source("sst", ROOT / "data/sources"), Fetcher(tmp_path / "arrivals", DownloadSettings())
    for file in source.files:
        fetcher.fetch(file, tmp_path / "raw")
    result = validate(read_corpus(source, tmp_path / "raw").lazy(), source, ValidateSettings())
    counts = {"O": 128_298, "N": 13_752, "P": 21_513}
    assert result.report["token_classes"]["train"] == counts
    assert result.report["token_classes"]["test"] == {"O": 33_090, "N": 3_620, "P": 5_695}
    rows = {split: part.collect().select(COLUMNS).rows() for split, part in result.parts.items()}
    view = encoded_in(tmp_path, pos, rows, "en", token_labels=list(counts))
    found = np.bincount(view.split("train").token_labels + 1)  # type: ignore[operator]
    assert found[1:].tolist() == list(counts.values()), "every word has a token, and its label is on it"
