"""Tests of `epigram suggest`: the texts that the model is least sure of, each different from the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from epigram.cli import app as cli
from epigram.inference import labelling_tasks, suggestions, tables
from epigram.inference.predictors.base_predictor import TextPrediction, Word
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.inference.predictors.predictor import Predictor
from epigram.inference.suggestions import choose_different, uncertainty
from tests.support.linear_models import SEVERAL, ensemble_of_svms, svm

SURE = ["nice soup here please", "soup soup", "large room", "nice clerk", "large large room", "soup nice nice"]
UNSURE = ["large soup and clerk", "the clerk of a room"]  # words of two or three labels


@pytest.fixture
def suggest(model: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that runs `epigram suggest` with the model."""

    def command(*arguments: object, of: Path = model) -> None:
        monkeypatch.setattr("sys.argv", ["epigram", "suggest", str(of), *map(str, arguments)])
        cli.app()

    return command


def lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def margins(model: Path, texts: list[str]) -> list[float]:
    ranked = np.sort(Predictor(model).probabilities(texts), axis=1)
    return list(1 - (ranked[:, -1] - ranked[:, -2]))


def test_tasks_of_label_studio_have_the_predictions(
    suggest: Callable[..., None], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = tmp_path / "pool.jsonl"
    pool.write_text(
        "".join(f"{json.dumps({'id': place, 'review': text})}\n" for place, text in enumerate(UNSURE + SURE))
    )
    suggest(pool, "--text", "review", "--count", 2, "--out", tmp_path / "tasks.json", "--format", "label-studio")
    tasks = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
    answers = Predictor(model).predict([task["data"]["text"] for task in tasks])
    assert sorted((task["data"]["id"], task["data"]["review"], task["data"]["text"]) for task in tasks) == [
        ("0", UNSURE[0], UNSURE[0]),
        ("1", UNSURE[1], UNSURE[1]),
    ]
    for task, answer in zip(tasks, answers, strict=True):
        assert set(task["data"]) == {"id", "review", "uncertainty", "text"}
        value = {"type": "choices", "value": {"choices": [answer.label]}}
        result = [{"from_name": "label", "to_name": "text"} | value]
        assert task["predictions"] == [{"model_version": model.name, "score": answer.probability, "result": result}]
    assert capsys.readouterr().out == f"{tmp_path / 'tasks.json'}: 2 texts to label\n"
    with pytest.raises(SystemExit):
        suggest(pool, "--text", "review", "--out", tmp_path / "tasks.csv", "--format", "label-studio")
    assert "unknown table format '.csv'; expected .json" in capsys.readouterr().err


def test_words_with_one_label_become_one_marked_part() -> None:
    text, labels = "Ann Lee met Bob", ["PER", "PER", "O", "PER"]
    places = [(0, 3), (4, 7), (8, 11), (12, 15)]
    words = [Word(text[a:b], a, b, label, 0.9) for (a, b), label in zip(places, labels, strict=True)]
    answer = TextPrediction(["x"], 0.9, {"x": 0.9}, words)
    found = [result["value"] for result in labelling_tasks._results(text, answer, "O")]
    assert found == [
        {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]},
        {"start": 12, "end": 15, "text": "Bob", "labels": ["PER"]},
    ]


@pytest.mark.parametrize(
    ("probabilities", "thresholds", "expected"),
    [
        ([[0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [0.4, 0.4, 0.2]], None, [0.8, 0.15, 1.0]),
        ([[0.5, 0.9], [0.2, 0.71]], [0.3, 0.7], [0.8, 0.99]),
        ([[1.0], [1.0]], None, [0.0, 0.0]),
    ],
)
def test_the_uncertainty_is_1_less_the_margin(
    probabilities: list[list[float]], thresholds: list[float] | None, expected: list[float]
) -> None:
    assert uncertainty(np.array(probabilities), thresholds) == pytest.approx(expected)


def test_a_text_similar_to_one_before_it_is_skipped() -> None:
    texts = ["the room was large", "the room was larger", "a nice clerk", "the room was large", "some soup"]
    assert choose_different(texts, "en", 5) == [0, 2, 4]
    assert choose_different(texts, "en", 2) == [0, 2]
    assert choose_different(["…", "!", "…"], "en", 9) == [0, 1]
    assert choose_different(["这个房间真的很大", "这个房间真的不大", "饭好吃"], "zh", 3) == [0, 2]


def test_the_texts_with_words_of_several_labels_come_first(
    suggest: Callable[..., None], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = lines(tmp_path / "more.txt", [*SURE[:3], "", UNSURE[0], "  ", UNSURE[0], *SURE[3:], UNSURE[1]])
    suggest(pool, "--count", 2, "--out", tmp_path / "next.csv")
    found = pl.read_csv(tmp_path / "next.csv")
    assert found.columns == ["text", "prediction", "probability", "uncertainty"]
    first = sorted(UNSURE, key=lambda text: -margins(model, [text])[0])
    assert found["text"].to_list() == first
    assert found["uncertainty"].to_list() == pytest.approx(margins(model, first), abs=1e-6)
    answers = Predictor(model).predict(first)
    assert found["prediction"].to_list() == [answer.label for answer in answers]
    assert found["probability"].to_list() == pytest.approx([answer.probability for answer in answers], abs=1e-6)
    assert capsys.readouterr().out == f"{tmp_path}/next.csv: 2 texts to label\n"


def test_a_table_keeps_its_columns(suggest: Callable[..., None], tmp_path: Path) -> None:
    texts = [*SURE, *UNSURE]
    pool = tmp_path / "pool.jsonl"
    pl.DataFrame({"id": range(len(texts)), "review": texts, "tags": [["a"]] * len(texts)}).write_ndjson(pool)
    suggest(pool, "--text", "review", "--count", 1, "--out", tmp_path / "next.jsonl")
    (row,) = map(json.loads, (tmp_path / "next.jsonl").read_text("utf-8").splitlines())
    assert row["review"] in UNSURE and texts[row["id"]] == row["review"] and row["tags"] == ["a"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_of_labels_by_a_machine_the_least_confident_ones_are_to_be_checked_first(
    suggest: Callable[..., None], tmp_path: Path, suffix: str
) -> None:
    """A person has labelled the first text; the machine has found no label for the last one."""
    rows = [(UNSURE[0], "food", None, None), (SURE[0], "food", 0.4, "m"), (SURE[2], "room", 0.9, "m")]
    rows.append((SURE[3], None, 0.0, "m"))
    pool = tmp_path / f"labelled{suffix}"
    frame = pl.DataFrame(rows, ["text", "label", "confidence", "labelled_by"], orient="row")
    (frame.write_csv if suffix == ".csv" else frame.write_ndjson)(pool)
    suggest(pool, "--count", 9, "--out", tmp_path / "next.csv")
    found = pl.read_csv(tmp_path / "next.csv")
    assert found["text"].to_list() == [SURE[3], SURE[0], SURE[2]]
    assert found["uncertainty"].to_list() == pytest.approx([1.0, 0.6, 0.1])
    assert found["label"].fill_null("").to_list() == ["", "food", "room"] and found["prediction"].null_count() == 0


def test_chunks_change_nothing(suggest: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    words = ["soup", "room", "clerk", "nice", "large", "with", "some", "more"]
    pool = lines(tmp_path / "more.txt", [" ".join(draw.choice(words, 5)) for _ in range(200)])
    suggest(pool, "--count", 5, "--out", tmp_path / "whole.csv")
    monkeypatch.setattr(tables, "BATCH_TEXTS", 7)
    suggest(pool, "--count", 5, "--out", tmp_path / "parts.csv")
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "parts.csv").read_bytes()
    assert pl.read_csv(tmp_path / "whole.csv").height == 5


def test_memory_holds_only_the_most_uncertain_texts(
    suggest: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BATCH_TEXTS", 3)
    monkeypatch.setattr(suggestions, "CANDIDATES", 1)
    kept = []
    choose = suggestions.choose_different
    monkeypatch.setattr(
        suggestions, "choose_different", lambda texts, *more: kept.append(len(texts)) or choose(texts, *more)
    )
    pool = lines(tmp_path / "more.txt", [*SURE, *UNSURE, *UNSURE, *UNSURE])
    suggest(pool, "--count", 2, "--out", tmp_path / "next.csv")
    assert kept == [2]
    assert set(pl.read_csv(tmp_path / "next.csv")["text"]) == set(UNSURE)


def test_fewer_texts_than_wanted_are_noted(
    suggest: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = lines(tmp_path / "more.txt", ["large soup", "Large soup!", "large soup"])
    suggest(pool, "--out", tmp_path / "next.csv")
    note = f"1 text to label; {pool} has no further text that differs enough"
    assert capsys.readouterr().out == f"{tmp_path}/next.csv: {note}\n"


def test_several_labels_are_uncertain_near_their_thresholds(suggest: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "fitted").mkdir()
    model = svm(tmp_path / "fitted", "en", SEVERAL["en"], multi=True)
    texts = ["soup", "soup room", "clerk", "here", "nothing known of it"]
    suggest(lines(tmp_path / "more.txt", texts), "--count", 5, "--out", tmp_path / "next.csv", of=model)
    found = pl.read_csv(tmp_path / "next.csv")
    predictor = Predictor(model)
    probabilities = predictor.probabilities(found["text"].to_list())
    distance = np.abs(probabilities - np.array(predictor.saved.thresholds)).min(1)
    assert found["uncertainty"].to_list() == pytest.approx((1 - distance).tolist(), abs=1e-6)
    assert (np.diff(distance) >= -1e-6).all()
    both = found.filter(pl.col("text") == "soup room")
    assert not both.height or both["prediction"].item() == "food, room"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pool.csv", "--out", "next.csv", "--text", "txt"], 64, "pool.csv has no column 'txt'"),
        (["taken.csv", "--out", "next.csv"], 64, "taken.csv already has a column 'prediction'"),
        (["more.txt", "--out", "next.csv", "--text", "uncertainty"], 64, "--text is 'uncertainty'"),
        (["more.txt", "--out", "next.txt"], 64, "next.txt: unknown table format '.txt'"),
        (["more.txt", "--out", "pool.csv"], 64, "pool.csv already exists; choose another file"),
        (["more.txt", "--out", "next.csv", "--count", "0"], 64, "--count is 0; expected at least 1"),
        (["more.txt"], 64, "Missing option '--out'"),
        (["gone.txt", "--out", "next.csv"], 66, "gone.txt is missing; expected a file with one text per line"),
        (["gone.csv", "--out", "next.csv"], 66, "gone.csv is missing"),
        (["empty.txt", "--out", "next.csv"], 65, "empty.txt has no text"),
        (["latin.txt", "--out", "next.csv"], 65, "latin.txt line 3 is not UTF-8"),
    ],
)
def test_a_wrong_call_is_refused_and_writes_nothing(
    arguments: list[str],
    code: int,
    said: str,
    suggest: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pool.csv").write_text("text\nsoup\n")
    (tmp_path / "taken.csv").write_text("text,prediction\nsoup,x\n")
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"nice\ngut\n" + "てる\n".encode("cp932"))
    lines(tmp_path / "more.txt", SURE)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SystemExit) as end:
        suggest(*arguments)
    assert (end.value.code, said in capsys.readouterr().err) == (code, True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_force_overwrites(suggest: Callable[..., None], tmp_path: Path) -> None:
    out = tmp_path / "next.csv"
    out.write_text("old")
    suggest(lines(tmp_path / "more.txt", SURE), "--out", out, "--force")
    assert out.read_text().startswith("text,prediction")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_formulas_are_escaped_in_a_file_for_a_spreadsheet(
    suffix: str, suggest: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ["=1+1", "+86 1", "-a", "@b", "\tc", "-0.5", "+1,000", "-", "a=b", "'=1"]
    rows = [
        {"text": f"{cell} soup {word}", "id": cell, "=A1": 0} for cell, word in zip(cells, "qwertyuiop", strict=True)
    ]
    pool, out = tmp_path / "pool.jsonl", tmp_path / f"next.{suffix}"
    pool.write_text("".join(json.dumps(row) + "\n" for row in rows))
    suggest(pool, "--out", out)
    if suffix == "jsonl":
        found = pl.DataFrame([json.loads(line) for line in out.read_text("utf-8").splitlines()])
    else:
        found = pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out, separator=",\t"[suffix == "tsv"])
    escaped = {f"'{cell}" if suffix in {"csv", "tsv"} and cell in cells[:5] else cell for cell in cells}
    assert set(found["id"]) <= escaped and found.height > 3
    assert found.columns[2] == ("'=A1" if suffix in {"csv", "tsv"} else "=A1")
    note = capsys.readouterr().err
    assert ("cells that begin with =, +, - or @" in note) is (suffix in {"csv", "tsv"})


def test_an_ensemble_chooses_by_its_own_probabilities(suggest: Callable[..., None], tmp_path: Path) -> None:
    folder, out = ensemble_of_svms(tmp_path), tmp_path / "next.csv"
    suggest(lines(tmp_path / "pool.txt", [*SURE, *UNSURE]), "--count", 1, "--out", out, of=folder)
    ranked = np.sort(open_predictor(folder).probabilities([*SURE, *UNSURE]), axis=1)
    least_sure = int((ranked[:, -1] - ranked[:, -2]).argmin())
    assert pl.read_csv(out)["text"].to_list() == [[*SURE, *UNSURE][least_sure]]
