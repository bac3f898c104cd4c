"""All stages on a corpus whose train has folds: which model predicts which row, and what the folds choose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from epigram.core.files import read_json, sha256
from epigram.evaluation.records.results import read_evaluation
from epigram.evaluation.tuning.temperature import fit_temperature
from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.inference.predictors.predictor import Predictor
from epigram.models.manifest import TrainingFacts
from epigram.models.predict import Predicted
from epigram.models.serialization import load, read_out_of_fold
from epigram.models.settings import System
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.training.cross_validation import cross_validate
from epigram.training.fitters.linear_svm import fit_scale
from epigram.training.system_setup import ModelSetup, read_setup
from tests.support.bad_input import Workshop
from tests.support.certain import (
    LABELS,
    SYSTEMS,
    WORD,
    compare,
    evaluate,
    one_label,
    prepared,
    prune,
    run,
    run_systems,
    several_labels,
    train,
)

FOLDS = 4
ENCODED = Path("data/encoded/token")
GRADIENT, LINEAR = "textcnn", "tfidf_svm"


def without_dev(rows: Any, **more: Any) -> str:
    """Return the rows of train and test as JSON lines."""
    found = [row | more for seed, split in ((0, "train"), (2, "test")) for row in rows(split, seed)]
    return "".join(json.dumps(row) + "\n" for row in found)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """One label: every text has the word of its label and a word of its own."""
    rows = [
        row | {"text": f"{row['text']} own{place}"}
        for place, row in enumerate(map(json.loads, without_dev(one_label).splitlines()))
    ]
    shop = Workshop(tmp_path_factory.mktemp("single"))
    prepared(shop, "".join(json.dumps(row) + "\n" for row in rows), [GRADIENT, LINEAR, "random"], folds=FOLDS)
    run_systems(shop, [GRADIENT, LINEAR, "random"])
    compare(shop)
    return shop


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    shop = Workshop(tmp_path_factory.mktemp("several"))
    prepared(shop, without_dev(several_labels), [GRADIENT, LINEAR], folds=FOLDS, task="multi")
    run_systems(shop, [GRADIENT, LINEAR])
    return shop


def view_of(shop: Workshop) -> View:
    return View.load(shop.root / ENCODED)


def logits_of(shop: Workshop, name: str) -> Any:
    return load_file(shop.root / f"data/pruned/{name}/seed-0/out_of_fold.safetensors")["logits"]


def judged(shop: Workshop, name: str) -> Predicted:
    """Return the predictions for train, by the choice of all folds, that tune the final model."""
    setup = read_setup(
        name, System(**SYSTEMS[name]), {}, "auto", shop.root / ENCODED, shop.root / "data/pretrained/token"
    )
    return cross_validate(ModelSetup(**vars(setup), seed=0)).judged


def test_each_fold_has_its_own_vocabulary(single: Workshop) -> None:
    """A word that only one text has is known to the whole and to all folds but the one that holds it out."""
    whole = view_of(single)
    rows = whole.split("train").rows
    assert len(whole.split("dev").rows) == 0
    held_out = []
    for number in range(FOLDS):
        part = whole.fold(number)
        words = read_json(part.tokenizer_json)["model"]["vocab"]
        inside = set(part.split("dev").rows.tolist())
        assert {row for row in rows.tolist() if f"own{row}" not in words} == inside
        assert inside.isdisjoint(part.split("train").rows.tolist())
        held_out += sorted(inside)
    assert sorted(held_out) == rows.tolist()
    assert all(f"own{row}" in read_json(whole.tokenizer_json)["model"]["vocab"] for row in rows)


def test_each_fold_weighs_the_entries_of_its_own_vocabulary(single: Workshop) -> None:
    """A fold lacks the words that only the texts it holds out have, so its vocabulary is smaller than that of train."""
    whole = view_of(single)
    for number in range(FOLDS):
        fold = whole.fold(number)
        entries = read_json(fold.tokenizer_json)["model"]["vocab"]
        assert fold.vocabulary == len(entries) < whole.vocabulary
        assert fold.pos_weight().shape == (len(entries),)


@pytest.mark.parametrize("name", [GRADIENT, LINEAR])
def test_every_training_row_has_its_own_prediction(single: Workshop, name: str) -> None:
    labels = view_of(single).split("train").labels
    logits = logits_of(single, name)
    assert (logits.argmax(1) == labels).mean() > 0.97
    dev = read_evaluation(single.root / f"data/evaluated/{name}").dev
    assert (dev.labels == labels).all()
    assert (dev.rows == view_of(single).split("train").rows).all()
    assert (dev.probabilities[0].argmax(1) == logits.argmax(1)).all()


@pytest.mark.parametrize("name", [GRADIENT, LINEAR])
def test_no_row_is_predicted_by_a_model_that_was_trained_on_it(name: str, tmp_path: Path) -> None:
    """The label of a text follows from its own word alone, so that only a model that has seen the text knows it."""
    draw = np.random.default_rng(5)
    rows = [
        {"text": f"own{n} own{n} own{n}", "label": LABELS[draw.integers(3)], "split": split}
        for n, split in enumerate(["train"] * 150 + ["test"] * 9)
    ]
    shop = prepared(Workshop(tmp_path), "".join(json.dumps(row) + "\n" for row in rows), [name], folds=FOLDS)
    train(shop, name)
    view, folder = view_of(shop), shop.root / f"data/models/{name}/seed-0"
    labels = view.split("train").labels
    right = load_file(folder / "out_of_fold.safetensors")["logits"].argmax(1) == labels
    assert right.mean() < 0.6
    if name == LINEAR:  # the training by gradient ends early, because no fold gets better
        found = Predictor(folder).predict([row["text"] for row in rows[:150]])
        assert np.mean([each.labels[0] == row["label"] for each, row in zip(found, rows, strict=False)]) > 0.95


def test_the_scores_are_those_of_the_folds(single: Workshop) -> None:
    labels = view_of(single).split("train").labels
    for name in (GRADIENT, LINEAR, "random"):
        right = float((logits_of(single, name).argmax(1) == labels).mean())
        metrics = read_json(single.root / f"data/evaluated/{name}/metrics.json")
        assert metrics["dev_score"]["value"] == pytest.approx(right)
        manifest = read_json(single.root / f"data/pruned/{name}/seed-0/manifest.json")
        assert manifest["dev_accuracy"] == pytest.approx(right)
    report = (single.root / "data/report/report.html").read_text()
    assert "cross-validation of 4 folds" in report


def test_the_final_model_knows_all_of_train(single: Workshop) -> None:
    whole = view_of(single)
    for name in (GRADIENT, LINEAR):
        saved = load(single.root / f"data/pruned/{name}/seed-0")
        assert saved.frame.vocabulary == whole.vocabulary
        found = Predictor(saved.folder).predict([f"some {WORD[label]} today" for label in LABELS])
        assert [each.labels for each in found] == [[label] for label in LABELS]
    model = load(single.root / f"data/pruned/{LINEAR}/seed-0").model
    assert len(model.keys) == len(set(whole.split("train").ids.values.tolist()))


def test_the_temperature_fits_all_folds_together(single: Workshop) -> None:
    """The saved predictions have the temperatures of the folds, each by the labels of the other folds."""
    view, raw = view_of(single), judged(single, GRADIENT).logits
    gold, fold = view.split("train").labels[:, None] == np.arange(3), view.fold_numbers()
    temperature = float(load(single.root / f"data/pruned/{GRADIENT}/seed-0").model.temperature)
    assert temperature != 1.0
    assert fit_temperature(raw, gold, multi=False) == pytest.approx(temperature, rel=1e-3)
    saved = logits_of(single, GRADIENT)
    for number in range(FOLDS):
        own = fold == number
        wanted = raw[own] / fit_temperature(raw[~own], gold[~own], multi=False)
        np.testing.assert_allclose(saved[own], wanted, rtol=1e-3)


def test_the_scale_of_an_svm_fits_all_folds_together(single: Workshop) -> None:
    scale = float(load(single.root / f"data/pruned/{LINEAR}/seed-0").model.scale)
    margins = Predicted(judged(single, LINEAR).logits / np.float32(scale), None)
    assert scale != 1.0
    assert fit_scale(margins, np.asarray(view_of(single).split("train").labels)) == pytest.approx(scale)


def test_no_model_is_pruned(single: Workshop) -> None:
    record = read_json(single.root / f"data/pruned/{LINEAR}/pruning.json")
    assert record["seeds"][0]["accepted"] is False


@pytest.mark.parametrize(("rows", "task"), [(one_label, "single"), (several_labels, "multi")])
def test_a_deep_model_is_cut_where_the_folds_say(rows: Any, task: str, tmp_path: Path) -> None:
    """The texts are easy, so that a layer or two are enough. The predictions of the folds stay as they are."""
    settings = {"rule": "shallowest", "tolerance": 0.02, "epochs": 1}
    shop = prepared(Workshop(tmp_path), without_dev(rows), ["transformer"], folds=2, task=task, prune=settings)
    train(shop, "transformer")
    prune(shop, "transformer")
    whole, cut = (load(shop.root / f"data/{stage}/transformer/seed-0") for stage in ("models", "pruned"))
    scores = read_json(whole.folder / "manifest.json")["layer_scores"]
    kept = next(depth for depth, score in enumerate(scores, 1) if score > max(scores) - 0.02)
    seed = read_json(shop.root / "data/pruned/transformer/pruning.json")["seeds"][0]
    assert (seed["depth_full"], seed["depth"], cut.model.depth) == (3, kept, kept)
    assert kept < 3 and seed["accepted"]
    assert [point["classifier_score"] for point in seed["tradeoff"]] == scores
    assert (cut.thresholds, cut.model.temperature) == (whole.thresholds, whole.model.temperature)
    predicted, manifests = (
        [each(saved.folder) for saved in (whole, cut)] for each in (read_out_of_fold, TrainingFacts.read)
    )
    assert (predicted[0] == predicted[1]).all()
    assert manifests[0].dev_accuracy == manifests[1].dev_accuracy
    evaluate(shop, "transformer")


def test_the_plan_of_a_training_is_in_its_history(single: Workshop) -> None:
    folder = single.root / f"data/pruned/{GRADIENT}/seed-0"
    history, manifest = read_json(folder / "history.json"), read_json(folder / "manifest.json")
    best = max(history, key=lambda line: (line["dev"], -line["dev_loss"]))
    assert manifest["epoch"] == best["epoch"]
    assert not (single.root / f"data/pruned/{LINEAR}/seed-0/history.json").exists() or not read_json(
        single.root / f"data/pruned/{LINEAR}/seed-0/history.json"
    )


@pytest.mark.parametrize("name", [GRADIENT, LINEAR])
def test_several_labels_have_the_thresholds_of_all_folds(several: Workshop, name: str) -> None:
    gold = np.asarray(view_of(several).split("train").labels) > 0
    saved = load(several.root / f"data/pruned/{name}/seed-0")
    logits = judged(several, name).logits / np.float32(saved.model.temperature if name == GRADIENT else 1.0)
    assert saved.thresholds == pytest.approx(tuned_thresholds(gold, 1 / (1 + np.exp(-logits))).tolist(), abs=1e-6)
    found = Predictor(saved.folder).predict([f"with {WORD['arts']} and {WORD['money']} today"])
    assert set(found[0].labels) == {"arts", "money"}


def test_several_processes_are_refused(single: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    arguments = (str(ENCODED), "data/pretrained/token", "new/models")
    ended = single.stage("train", LINEAR, *arguments)
    ended.refused(64, "train has folds, which are trained in one process; start without torchrun")


def test_a_pretrained_view_has_an_encoder_for_each_fold(tmp_path: Path) -> None:
    """Each fold's encoder has the vocabulary of that fold, and a training on it starts from its weights.

    Of the texts without labels, it has read neither those of test nor those of the fold that is held out.
    """
    shop = Workshop(tmp_path)
    small = {"width": 16, "hidden": 16, "depth": 1, "heads": 2}
    system = {"view": "token", "recipe": "transformer", "encoder": {**small}, "train": {"epochs": 1}}
    pretrain = {"epochs": 1, **small, "texts": "data/local/more.txt"}
    content = "".join(
        json.dumps(json.loads(line) | {"text": f"{json.loads(line)['text']} own{n}"}) + "\n"
        for n, line in enumerate(without_dev(one_label).splitlines())
    )
    prepared(shop, content, [LINEAR], folds=2)
    shop.params(systems={"mine": system}, views={"token": {"tokenizer": "token", "pretrain": pretrain}})
    run(shop, ("encode", "token", "data/validated", "data/augmented", "data/pos", "data/encoded/token"))
    corpus = ValidatedCorpus.read(shop.root / "data/validated")
    first, second = (corpus.fold(number).frame("dev", "text")["text"].to_list() for number in range(2))
    lines = [*first[:2], second[0], corpus.frame("test", "text")["text"][0], "a new text"]
    (shop.root / pretrain["texts"]).write_text("\n".join(lines))
    run(shop, ("pretrain", "token", "data/encoded/token", "data/pretrained/token"))
    whole = shop.root / "data/pretrained/token"
    view = view_of(shop)
    left_out = [read_json(whole / folder / "about.json")["left_out"] for folder in ("", "folds/0", "folds/1")]
    assert left_out == [1, 3, 2]
    for folder, part in ((whole, view), (whole / "folds/0", view.fold(0)), (whole / "folds/1", view.fold(1))):
        assert read_json(folder / "about.json")["tokenizer"] == sha256(part.tokenizer_json)
    train(shop, "mine")
