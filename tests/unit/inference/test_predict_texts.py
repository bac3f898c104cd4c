"""Predictions of texts: accepted input, minimum confidence, prompts, and the printed output of commands."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import epigram
import epigram.hf
from epigram.cli import app as cli
from epigram.core.errors import DataError, ParameterError
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.inference.onnx.export import export
from epigram.inference.predictors.base_predictor import BasePredictor
from epigram.inference.predictors.predictor import Predictor
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.text import lines
from epigram.text.settings import OwnTemplate, ViewSettings
from epigram.training.config import configure
from epigram.training.distributed.resources import resolve_threads
from tests.support.linear_models import LABELS, SEVERAL, TRAIN, ensemble_of_svms, svm
from tests.support.text_samples import EN
from tests.support.trained import train_seed


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def command(*arguments: object) -> None:
        monkeypatch.setattr("sys.argv", ["epigram", *map(str, arguments)])
        cli.app()

    return command


@pytest.mark.parametrize("named", [[], [0], [1], [0, 2], [0, 1, 2]])
def test_a_text_has_the_labels_above_their_own_thresholds(named: list[int], tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", SEVERAL["en"], multi=True))
    [p] = predictor.probabilities(["soup"])
    predictor.saved.thresholds[:] = [float(p[c]) - 0.01 if c in named else float(p[c]) + 0.01 for c in range(3)]
    [answer] = predictor.predict(["soup"])
    assert answer.labels == [LABELS[c] for c in named]


def test_a_probability_at_its_threshold_is_no_label_for_the_product_and_for_the_evaluation(tmp_path: Path) -> None:
    predictor = Predictor(svm(tmp_path, "en", SEVERAL["en"], multi=True))
    found = predictor.probabilities(["soup"])
    predictor.saved.thresholds[:] = [float(found[0, 0]), float(np.nextafter(found[0, 1], np.float32(0))), 1.0]
    [answer] = predictor.predict(["soup"])
    judged = predict_labels("multi", np.zeros((1, 3)), found[None], np.array([predictor.thresholds]))
    assert answer.labels == [LABELS[c] for c in np.flatnonzero(judged.predicted[0, 0])] == [LABELS[1]]


def test_probabilities_of_no_text_are_an_empty_table_of_single_precision(model: Path) -> None:
    found = Predictor(model).probabilities([])
    assert (found.shape, found.dtype) == ((0, 3), np.float32)


def test_texts_of_nothing_but_white_space_count_as_empty(
    model: Path, call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    call("predict", model, "soup", "", " \t", "\u3000", "large room")
    said = capsys.readouterr()
    assert [line.split("\t")[0] for line in said.out.splitlines()][::4] == ["food", "room"]
    assert said.err == "note: 3 texts are empty, without a label\n"


def test_the_spaces_of_a_line_are_part_of_its_text(
    model: Path, call: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "texts").write_bytes(b"  nice soup \t\r\n\xe3\x80\x80soup\n")
    call("predict", model, "--file", tmp_path / "texts", "--json")
    said = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert said == ["  nice soup \t", "\u3000soup"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [([], ("onnx", False)), (["--int8"], ("onnx", True)), (["--to", "openvino"], ("openvino", False))],
)
def test_the_export_command_asks_for_the_format_and_precision_that_the_user_asks_for(
    options: list[str], wanted: tuple[str, bool], call: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked = []

    def write(model: Path, out: Path, *, to: str, int8: bool = False) -> None:
        asked.append((model, out, to, int8))
        out.mkdir()

    monkeypatch.setattr("epigram.inference.onnx.export.export", write)
    call("export", tmp_path / "model", tmp_path / "out", *options)
    assert asked == [(tmp_path / "model", tmp_path / "out", *wanted)]


def test_control_characters_of_a_text_are_not_printed_and_json_keeps_them(
    model: Path, call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    text = "large\x1b]0;owned\x07 \x9b31mroom\x7f"
    call("predict", model, text)
    assert capsys.readouterr().out.split("\t")[2] == "large room\n"
    call("predict", "--json", model, text)
    out = capsys.readouterr().out
    assert json.loads(out)["text"] == text
    assert not {"\x1b", "\x07", "\x9b", "\x7f"} & set(out)


def test_a_line_without_end_is_refused_before_it_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    assert list(lines.read_lines(io.BytesIO(b"123456789\n1234567890"), "x line")) == [b"123456789\n", b"1234567890"]
    file = io.BytesIO(b"short\n" + b"a" * 100)
    with pytest.raises(DataError, match="x line 2 is longer than 0 MB; write one text per line"):
        list(lines.read_lines(file, "x line"))
    assert file.tell() == 17


@pytest.mark.parametrize("option", [["--text", "text"], ["--force"]])
def test_an_option_for_tables_without_a_table_to_write_is_refused(
    option: list[str], model: Path, call: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call("predict", model, "soup", *option)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (ParameterError.code, "")
    assert f"{option[0]} needs a table and --out" in said.err


TEXTS = ["nice soup", "large room", ""]
FORMS: dict[str, Callable[[], Any]] = {
    "tuple": lambda: tuple(TEXTS),
    "generator": lambda: (text for text in TEXTS),
    "array of strings": lambda: np.array(TEXTS),
    "array of objects": lambda: np.array(TEXTS, dtype=object),
    "column": lambda: pl.Series(TEXTS),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "string": ("nice soup", r"expected a list of texts, found a single str; pass a list: \[text\]"),
    "bytes": (b"nice soup", "found a single bytes"),
    "none": (None, "expected a list of texts, found NoneType"),
    "mapping": ({"nice soup": 1}, "found dict; pass a list, or one column of a table"),
    "table": (pl.DataFrame({"text": TEXTS}), "found DataFrame; pass a list, or one column of a table"),
    "missing text": (["nice soup", None], r"texts\[1\] has the type NoneType; expected str"),
    "not a number": (np.array(["nice soup", "", float("nan")], dtype=object), r"texts\[2\] has the type float"),
    "rows": ([["nice soup"]], r"texts\[0\] has the type list"),
}


@pytest.fixture(scope="module", params=["single", "ensemble"])
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BasePredictor:
    folder = tmp_path_factory.mktemp(request.param)
    return epigram.load(svm(folder, "en", TRAIN["en"]) if request.param == "single" else ensemble_of_svms(folder))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_texts_gives_the_predictions_of_the_list(form: str, predictor: BasePredictor) -> None:
    expected = predictor.predict(TEXTS)
    assert [each.label for each in expected[:2]] == ["food", "room"]
    assert predictor.predict(FORMS[form]()) == expected
    np.testing.assert_array_equal(predictor.probabilities(FORMS[form]()), predictor.probabilities(TEXTS))


def test_an_open_file_has_one_text_per_line(predictor: BasePredictor, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("nice soup\nlarge room\n\n")
    with (tmp_path / "texts.txt").open() as file:
        assert predictor.predict(file) == predictor.predict(TEXTS)


def test_no_texts_have_no_predictions(predictor: BasePredictor) -> None:
    for none in ([], (text for text in TEXTS if text == "absent"), np.array([], dtype=object)):
        assert predictor.predict(none) == []
    assert predictor.probabilities(iter(())).shape == (0, 3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_list_of_texts_is_refused(name: str, predictor: BasePredictor) -> None:
    texts, said = REFUSED[name]
    for method in (predictor.predict, predictor.probabilities):
        with pytest.raises(ParameterError, match=said):
            method(texts)


def test_attention_maps_refuse_a_single_string_before_they_read_the_model(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="found a single str"):
        epigram.attention_maps(tmp_path / "absent", "nice soup")


SURE, UNSURE = "soup soup", "nice"  # "nice" occurs with food and with staff


@pytest.fixture(scope="module")
def between(model: Path) -> float:
    """Return a probability between those of the two texts."""
    sure, unsure = Predictor(model).probabilities([SURE, UNSURE]).max(1)
    assert sure - unsure > 0.1
    return round(float(sure + unsure) / 2, 3)


def test_a_text_is_labelled_from_the_minimum_on(model: Path) -> None:
    [whole] = Predictor(model).predict([UNSURE])
    assert whole.labels and [each.labels for each in epigram.load(model).predict([UNSURE])] == [whole.labels]
    exact = epigram.load(model, min_confidence=whole.probability)
    assert exact.predict([UNSURE])[0] == whole
    [unsure] = epigram.load(model, min_confidence=whole.probability + 1e-6).predict([UNSURE])
    assert (unsure.labels, unsure.label) == ([], "")
    assert (unsure.probability, unsure.probabilities) == (whole.probability, whole.probabilities)


def test_lines(run: Callable[..., None], between: float, capsys: pytest.CaptureFixture[str]) -> None:
    run(SURE, UNSURE, "--min-confidence", between)
    said = capsys.readouterr()
    first, second = (line.split("\t") for line in said.out.splitlines())
    assert (first[0], first[2], second[0], second[2]) == ("food", SURE, "", UNSURE)
    assert 0 < float(second[1]) < between < float(first[1])
    assert said.err == f"note: 1 text is below the minimum confidence of {between}, without a label\n"


def test_json(run: Callable[..., None], between: float, capsys: pytest.CaptureFixture[str]) -> None:
    run(SURE, UNSURE, "--json", "--min-confidence", between)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["label"], second["label"], len(second["probabilities"])) == ("food", None, 3)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables(
    suffix: str, run: Callable[..., None], between: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame({"text": [UNSURE, SURE, UNSURE]}).write_csv(tmp_path / "in.csv")
    out = tmp_path / f"out.{suffix}"
    run(tmp_path / "in.csv", "--out", out, "--min-confidence", between)
    found = pl.read_csv(out) if suffix == "csv" else pl.read_parquet(out)
    assert found["label"].to_list() == [None, "food", None]
    assert found["probability"].null_count() == 0
    assert "note: 2 texts are below the minimum confidence" in capsys.readouterr().err


def test_without_a_minimum_no_text_is_counted(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    run(SURE, UNSURE)
    said = capsys.readouterr()
    assert all(line.split("\t")[0] for line in said.out.splitlines())
    assert said.err == ""


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_minimum_that_is_no_probability_is_refused(value: float, model: Path) -> None:
    with pytest.raises(ParameterError, match=r"the minimum confidence is .*; expected a number from 0 to 1"):
        epigram.load(model, min_confidence=value)


def test_several_labels_have_thresholds_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    several = svm(tmp_path, "en", SEVERAL["en"], multi=True)
    with pytest.raises(ParameterError, match="each with its own threshold; remove the minimum confidence"):
        epigram.load(several, min_confidence=0.5)
    assert epigram.load(several).predict(["here"])[0].labels == []
    monkeypatch.setattr("sys.argv", ["epigram", "predict", str(several), "here"])
    cli.app()
    assert capsys.readouterr().err == "", "no label is an answer of such a model"


ENCODER = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 1}
LONG = " ".join(["good slow film"] * 9)


@pytest.mark.parametrize(
    ("text", "masks"), [("a text : {text} it was [MASK] .", 1), ("not [MASK] : {text} but [MASK]", 2)]
)
def test_a_prompt_around_the_text_is_whole_in_every_interface(
    text: str, masks: Any, encoded: Any, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    settings = ViewSettings(tokenizer="wordpiece", prompt=True)
    view = encoded(EN, "en", settings, OwnTemplate(text=text, masks=masks))
    recipe = Recipe(
        name="mine", about="", paper="", view="v", encoder=ENCODER, head={"kind": "prompt"},
        train={"epochs": 1, "max_length": 16, "precision": "fp32"},
    )  # fmt: skip
    config = resolve_threads(configure("mine", recipe), recipe, None)
    train_seed("mine", recipe, config, view, None, 0, tmp_path / "model")
    saved, predictor, texts = load(tmp_path / "model"), Predictor(tmp_path / "model"), ["good", LONG, ""]
    assert saved.model.head.config.gamma == {1: 1.0, 2: 0.5}[masks]
    assert [answer.truncated for answer in predictor.predict(texts)] == [False, True, False]
    batch = predictor.batches(texts).gather(np.arange(3))
    for ids, valid in zip(batch.ids, batch.valid, strict=True):
        row = ids[valid].tolist()
        assert row[: len(view.prefix_ids)] == view.prefix_ids and row[-len(view.suffix_ids) :] == view.suffix_ids
        assert row.count(view.mask_id) == masks and len(row) <= 16
    expected = predictor.probabilities(texts)
    tokens = AutoTokenizer.from_pretrained(tmp_path / "model")(texts, padding=True, return_tensors="pt")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    with torch.inference_mode():
        found = model(**tokens).logits.softmax(-1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-2)
    if masks == 2:
        return  # an export takes ten seconds, and both numbers of masks use the same operators
    export(tmp_path / "model", tmp_path / "exported")
    np.testing.assert_allclose(Predictor(tmp_path / "exported").probabilities(texts), expected, atol=1e-2)


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["texts.txt"], 0, ["food", "room"], "note: texts.txt is read as a file with one text per line\n"),
        (["--file", "texts.txt"], 0, ["food", "room"], ""),
        (["missing.txt"], 66, [], "missing.txt is missing; expected a file with one text per line"),
        (["missing.csv"], 66, [], "missing.csv is missing; expected a file with one text per line"),
        (["MISSING.Parquet"], 66, [], "MISSING.Parquet is missing"),
        (["--", "missing.csv"], 66, [], "missing.csv is missing"),
        (["--file", "missing.csv"], 66, [], "missing.csv is missing"),
        (["--file", "/dev/null"], 64, [], "/dev/null is not a file; for a pipe, use stdin"),
        (["a.csv"], 64, [], "a.csv is a table"),
        (["a.txt.gz"], 64, [], "a.txt.gz has an unsupported file type; use .txt, or a table with --out"),
        (["missing.json"], 66, [], "missing.json is missing"),
        (["a.csv", "large room"], 0, ["food", "room"], ""),
        (["soup, version 2.0"], 0, ["food"], ""),
        (["soup.txt\nsoup.csv"], 0, ["food"], ""),
        (["soup " * 999], 0, ["food"], "note: 1 text is truncated to 8 tokens\n"),
    ],
)
def test_a_single_argument_that_names_a_file_is_no_text(
    arguments: list[str], code: int, out: list[str], err: str, run: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("nice soup\nlarge room\n")
    (tmp_path / "a.csv").write_text("text\nsoup\n")
    (tmp_path / "a.txt.gz").write_bytes(b"")
    if code:
        with pytest.raises(SystemExit) as end:
            run(*arguments)
        assert end.value.code == code
    else:
        run(*arguments)
    said = capsys.readouterr()
    assert ([line.split("\t")[0] for line in said.out.splitlines()], said.err.removeprefix("error: ")[: len(err)]) == (
        out,
        err,
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x1b[2K\n"])
def test_a_text_cannot_forge_a_line(end: str, run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    run(f"nice soup{end}room\t0.999\tforged", "large room")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["food", "room"]
    assert "\x1b" not in lines[0] and lines[0].endswith(f"{ascii(end[-1])[1:-1]}room\t0.999\tforged")
