"""Tests of a saved ensemble: predictions, files that were changed, export, and what refuses it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epigram
from epigram import hf
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import sha256, write_json
from epigram.inference.onnx.export import export
from epigram.inference.predictors.open_predictor import open_predictor
from epigram.inference.predictors.predictor import Predictor
from epigram.models import ensemble, manifest
from epigram.models.serialization import load
from tests.support.linear_models import LABELS, TEMPERATURE, TRAIN, WEIGHTS, ensemble_of_svms, svm

TEXTS = ["nice soup", "large room", "clerk", "", "soup soup soup soup soup soup soup soup room", f"{'soup ' * 6}room"]


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an ensemble, shared by all tests; do not change it."""
    return ensemble_of_svms(tmp_path_factory.mktemp("single"))


@pytest.fixture
def copied(single: Path, tmp_path: Path) -> Path:
    """Return a copy of the ensemble's folder."""
    return Path(shutil.copytree(single, tmp_path / "ensemble"))


def members_of(folder: Path) -> list[np.ndarray]:
    return [Predictor(folder / "members" / name).probabilities(TEXTS).astype(float) for name in WEIGHTS]


def test_the_probabilities_are_the_weighted_mean_with_the_temperature(single: Path) -> None:
    first, second = members_of(single)
    assert np.abs(first - second).max() > 0.05
    powered = (0.25 * first + 0.75 * second) ** (1 / TEMPERATURE)
    expected = powered / powered.sum(1, keepdims=True)
    found = epigram.load(single)
    np.testing.assert_allclose(found.probabilities(TEXTS), expected, atol=1e-6)
    predicted = found.predict(TEXTS)
    named = [LABELS[c] if text else "" for text, c in zip(TEXTS, expected.argmax(1), strict=True)]
    assert [each.label for each in predicted] == named and "" in named
    assert [each.truncated for each in predicted] == [False] * 4 + [True, True]  # members read 8 and 6 tokens
    assert found.room == 6
    assert found.predict([]) == [] and found.probabilities([]).shape == (0, 3)


def test_several_labels_have_the_ensemble_s_thresholds(tmp_path: Path) -> None:
    folder = ensemble_of_svms(tmp_path, multi=True)
    first, second = members_of(folder)
    mean = np.clip(0.25 * first + 0.75 * second, 1e-7, 1 - 1e-7)
    odds = (mean / (1 - mean)) ** (1 / TEMPERATURE)
    expected = odds / (1 + odds)
    wanted = [[LABELS[c] for c in range(3) if row[c] > [0.3, 0.4, 0.5][c]] for row in expected]
    assert [each.labels for each in open_predictor(folder).predict(TEXTS)] == wanted


def test_a_minimum_confidence_counts_for_the_ensemble(single: Path) -> None:
    sure = [each.probability for each in epigram.load(single).predict(TEXTS)]
    least = sum(sorted(sure)[1:3]) / 2
    found = epigram.load(single, min_confidence=least).predict(TEXTS)
    assert [bool(each.labels) for each in found] == [p >= least for p in sure]


def test_an_exported_ensemble_gives_the_same_predictions_and_keeps_the_facts_of_its_manifest(
    single: Path, tmp_path: Path
) -> None:
    loaded = ensemble.load(single)
    members = {name: loaded.member(name) for name in loaded.weights}
    ensemble.save(
        replace(loaded, folder=tmp_path / "known"),
        ensemble.copy_members(members),
        {manifest.PROVENANCE: {"data": "ab"}, manifest.HIERARCHY: "/"},
    )
    export(tmp_path / "known", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out/members/first").glob("*.onnx")) == ["model.onnx"]
    expected, found = (open_predictor(folder).probabilities(TEXTS) for folder in (single, tmp_path / "out"))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert manifest.read_provenance(tmp_path / "out")["data"] == "ab"
    assert (open_predictor(tmp_path / "out").hierarchy, open_predictor(single).hierarchy) == ("/", "")
    with pytest.raises(ParameterError, match="already exists"):
        export(single, tmp_path / "out")


def test_what_needs_one_model_refuses_an_ensemble(single: Path) -> None:
    for refused in (load, Predictor, hf.AutoConfig.from_pretrained, hf.EpigramTokenizer.from_pretrained):
        with pytest.raises(ParameterError, match=r"is an ensemble, .* use one of its members, in .*members"):
            refused(single)
    with pytest.raises(ParameterError, match="is an ensemble"):
        epigram.attention_maps(single, ["soup"])


@pytest.mark.parametrize("name", ["config.json", "labels.json", "README.md", "members/second/model.safetensors"])
def test_a_changed_or_missing_file_is_refused(name: str, copied: Path) -> None:
    file = copied / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match="was changed after the model was saved"):
        open_predictor(copied)
    file.unlink()
    with pytest.raises(InputMissingError, match="is missing"):
        open_predictor(copied)


@pytest.mark.parametrize("path", ["members/third", "members/second/more.json", "more.json", "members/file"])
def test_an_unlisted_file_is_refused(path: str, copied: Path) -> None:
    if path == "members/third":
        shutil.copytree(copied / "members/first", copied / path)
    else:
        (copied / path).write_text("{}")
    with pytest.raises((DataError, InputMissingError), match=r"is not listed|is missing"):
        manifest.verify(copied)


@pytest.mark.parametrize("path", ["members/second/evil.py", "members/second/members/z/evil.py"])
def test_code_of_a_member_is_refused_although_it_is_listed(path: str, copied: Path) -> None:
    (copied / path).parent.mkdir(parents=True, exist_ok=True)
    (copied / path).write_text("1")
    for folder in (copied / "members/second/members/z", copied / "members/second", copied):
        if folder.is_dir():
            old = json.loads((copied / "members/second/manifest.json").read_text())
            (folder / "config.json").touch()
            manifest.write(folder, {name: value for name, value in old.items() if name != "sha256"})
    for read in (manifest.verify, open_predictor):
        with pytest.raises(DataError, match=r"manifest\.json (does not list the files of a model: |is not listed)"):
            read(copied)


def test_a_member_outside_of_the_folder_is_refused(copied: Path, tmp_path: Path) -> None:
    (copied / "members/second").rename(tmp_path / "outside")
    (copied / "members/second").symlink_to(tmp_path / "outside")
    for read in (manifest.verify, open_predictor):
        with pytest.raises(DataError, match=r"members/second is not listed in manifest\.json; remove it"):
            read(copied)


def test_a_member_that_was_exchanged_with_its_manifest_is_refused(copied: Path) -> None:
    shutil.rmtree(copied / "members/second")
    shutil.copytree(copied / "members/first", copied / "members/second")
    with pytest.raises(DataError, match=r"members/second/manifest\.json was changed"):
        open_predictor(copied)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": {"first": 0.5, "second": 0.6}},
        {"weights": {"first": 0.0, "second": 1.0}},
        {"weights": {"first": 1.0}},
        {"weights": {"../first": 0.5, "second": 0.5}},
        {"weights": []},
        {"temperature": 0.0},
        {"temperature": "1"},
        {"thresholds": [0.5]},
        {"thresholds": [0.5, 0.5, float("nan")]},
        {"task": "other"},
        {"format": 2},
    ],
    ids=str,
)
def test_values_that_no_ensemble_has_are_refused(change: dict[str, Any], copied: Path) -> None:
    change_config(copied, change)
    with pytest.raises(DataError, match="restore the folder"):
        open_predictor(copied)


def change_config(folder: Path, change: dict[str, Any]) -> None:
    """Change values of config.json and its checksum in the manifest."""
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | change)
    listed = json.loads((folder / "manifest.json").read_text())
    listed["sha256"]["config.json"] = sha256(folder / "config.json")
    write_json(folder / "manifest.json", listed)


def test_members_with_other_labels_are_refused(tmp_path: Path) -> None:
    folder = ensemble_of_svms(tmp_path)
    write_json(folder / "labels.json", LABELS[::-1])
    listed = json.loads((folder / "manifest.json").read_text())
    listed["sha256"]["labels.json"] = sha256(folder / "labels.json")
    write_json(folder / "manifest.json", listed)
    with pytest.raises(DataError, match="does not have the labels of the ensemble"):
        open_predictor(folder)


# A text that is food and gets another label costs 1,000; other errors cost 1.
PRICES = [[0.0, 1000.0, 1000.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]


def test_prices_choose_the_label_of_a_model_an_ensemble_and_their_exports(tmp_path: Path) -> None:
    """Food is possible in every text, so it is the label with the least expected price."""
    (tmp_path / "svm").mkdir()
    model = svm(tmp_path / "svm", "en", TRAIN["en"], prices=PRICES)
    folders = {"model": model, "ensemble": ensemble_of_svms(tmp_path / "more", prices=PRICES)}
    for name, folder in list(folders.items()):
        export(folder, tmp_path / name)
        folders[f"exported {name}"] = tmp_path / name
    for folder in folders.values():
        found = open_predictor(folder)
        probabilities = found.probabilities(["large room"])
        (predicted,) = found.predict(["large room"])
        assert (LABELS[probabilities[0].argmax()], predicted.label) == ("room", "food")
        assert predicted.probability == pytest.approx(probabilities[0, 0]) and predicted.probability > 0.001
        assert found.explain(["large room"])[0].label == "food"
    assert open_predictor(model, min_confidence=0.5).predict(["large room"])[0].label == ""
    with pytest.raises(ParameterError, match="chooses the label with the least expected price"):
        hf.EpigramForSequenceClassification.from_pretrained(model)


@pytest.mark.parametrize("prices", [[[0.0]], [[0.0, 1.0, -1.0]] * 3, 1.0, [[0.0, 1.0, "1"]] * 3])
def test_prices_that_do_not_fit_the_labels_are_refused(prices: Any, tmp_path: Path) -> None:
    (tmp_path / "svm").mkdir()
    for folder in (
        svm(tmp_path / "svm", "en", TRAIN["en"], prices=prices),
        ensemble_of_svms(tmp_path / "e", prices=prices),
    ):
        with pytest.raises(DataError, match=r"cannot be loaded|does not describe an ensemble"):
            open_predictor(folder)
