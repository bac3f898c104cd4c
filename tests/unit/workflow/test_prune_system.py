"""Pruning of a system: token labels in fine-tuning, the recorded accuracy, and the precision of the evaluation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.files import read_json, write_json
from epigram.evaluation.records.pruning_record import PruningRecord, SeedPruning
from epigram.inference.predictors.dataset_batches import batches_of
from epigram.inference.predictors.measure import measure
from epigram.models import precision
from epigram.models.complexity import flops
from epigram.models.predict import predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.models.settings import System
from epigram.pruning import depth
from epigram.pruning.depth import PruningResult
from epigram.pruning.prune_model import prune_model
from epigram.pruning.settings import PruneSettings
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import View
from epigram.training.config import configure
from epigram.training.dev_score import TEXTS
from epigram.training.distributed.resources import resolve_threads
from epigram.training.frozen.probe import probe
from epigram.training.resume import read_finished
from epigram.workflow.prune import prune_system, unpruned_records
from tests.support.precisions import discards
from tests.support.text_samples import encoded_in
from tests.support.trained import train_seed

ENCODER = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 3}
DROPS = PruneSettings(threshold=0.0, rule="shallowest", tolerance=1.0, epochs=1)  # the layers above the first good one
REFUSED = PruneSettings(threshold=1.0)  # no layer is above the threshold: all are kept
GOOD, BAD, PLAIN = ("good", "great", "fine"), ("dull", "slow", "weak"), ("film", "plot", "cast", "the", "a")


@pytest.mark.parametrize(
    ("enabled", "preset", "own", "drops"),
    [
        (True, None, None, True),
        (False, None, None, False),
        (True, "paper", None, False),  # Transformer-F keeps its six layers
        (True, "paper", True, True),
        (False, None, True, True),
        (True, None, False, False),
    ],
)
def test_a_system_is_pruned_by_its_own_setting_and_not_with_the_settings_of_a_paper(
    enabled: bool, preset: Any, own: bool | None, drops: bool
) -> None:
    system = System(view="token", preset=preset, prune=own)
    assert PruneSettings(enabled=enabled, epochs=3).of(system) == PruneSettings(enabled=drops, epochs=3)


def rows(count: int, seed: int, marked: bool = True) -> list[tuple[Any, ...]]:
    """Return texts whose class is set by one word; this word has a token label if `marked`."""
    draw, found = np.random.default_rng(seed), []
    for n in range(count):
        words = [str(word) for word in draw.choice(PLAIN, 4)]
        words[n % 4] = str(draw.choice((GOOD, BAD)[n % 2]))
        labels = ["X" if marked and place == n % 4 else "O" for place in range(4)]
        found.append((" ".join(words), ("pos", "neg")[n % 2], words, labels))
    return found


def tagged(root: Path, pos: Path, *, marked: bool = True) -> View:
    corpus = {"train": rows(32, 0, marked), "dev": rows(16, 1), "test": rows(8, 2)}
    return encoded_in(root, pos, corpus, "en", token_labels=["O", "X"])


def trained(view: View, out: Path, head: dict[str, Any], **train: Any) -> Path:
    recipe = Recipe(name="mine", about="", paper="", view="token", encoder=ENCODER, head=head, train=train)
    train_seed("mine", recipe, resolve_threads(configure("mine", recipe), recipe, None), view, None, 0, out)
    return out


def test_fine_tuning_sees_no_token_label_that_training_did_not(tmp_path: Path, pos: Path) -> None:
    shown, hidden = (tagged(tmp_path / str(marked), pos, marked=marked) for marked in (True, False))
    folder = trained(shown, tmp_path / "model", {"kind": "tagger"}, token_supervision=0.0, epochs=2)
    for name, view in (("first", shown), ("second", hidden)):
        prune_model("mine", view, folder, DROPS, "auto", tmp_path / name)
        assert read_finished(tmp_path / name)["about"]["accepted"]
    first, second = (load(tmp_path / name).model.state_dict() for name in ("first", "second"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_pruned_model_notes_the_accuracy_of_its_texts_whatever_training_stops_on(tmp_path: Path, pos: Path) -> None:
    view = tagged(tmp_path, pos)
    folder = trained(view, tmp_path / "model", {"kind": "tagger"}, stop_on="token", epochs=2)
    prune_model("mine", view, folder, DROPS, "auto", tmp_path / "pruned")
    saved = load(tmp_path / "pruned")
    dev = batches_of(view, "dev", saved.frame)
    predicted = predict(saved.model, dev)
    accuracy = predicted.score(dev.targets(np.arange(len(dev))).numpy())
    assert saved.model.depth < 3
    assert accuracy != predicted.token_score(dev.read_labels())
    assert read_json(tmp_path / "pruned/manifest.json")["dev_accuracy"] == accuracy


def test_a_trained_model_notes_the_accuracy_of_its_texts_whatever_training_stops_on(tmp_path: Path, pos: Path) -> None:
    view = tagged(tmp_path, pos)
    folder = trained(view, tmp_path / "model", {"kind": "tagger"}, stop_on="token", epochs=1)
    saved = load(folder)
    dev = batches_of(view, "dev", saved.frame)
    predicted = predict(saved.model, dev)
    right = predicted.logits.argmax(1) == dev.targets(np.arange(len(dev))).numpy()
    assert right.mean() != predicted.token_score(dev.read_labels())
    assert read_json(folder / "manifest.json")["dev_accuracy"] == right.mean()


BLOCK = 4 * (16 * 16 + 16) + 2 * (16 * 16 + 16) + 2 * 2 * 16  # parameters: attention, feed-forward, two norms


def test_each_depth_has_its_accuracy_and_costs_a_layer_more_than_the_one_before(tmp_path: Path, pos: Path) -> None:
    view = tagged(tmp_path, pos)
    folder = trained(view, tmp_path / "model", {"kind": "linear"}, epochs=1)
    prune_model("mine", view, folder, DROPS, "auto", tmp_path / "pruned")
    about, facts, saved = read_finished(tmp_path / "pruned")["about"], read_json(folder / "manifest.json"), load(folder)
    assert (about["accepted"], about["depth_full"], about["depth"]) == (True, 3, 1)
    table = about["tradeoff"]
    assert [point["depth"] for point in table] == [1, 2, 3]
    full = facts["parameters_full"]
    assert [point["parameters"] for point in table] == [full - 2 * BLOCK, full - BLOCK, full]
    assert load(tmp_path / "pruned").model.depth == 1
    steps = np.diff([point["flops"] for point in table])
    assert steps[0] == steps[1] > 0
    train, dev = (batches_of(view, split, saved.frame) for split in ("train", "dev"))
    assert [point["classifier_score"] for point in table] == TEXTS.of_parts(
        probe(saved.model, train, dev, 2), dev, multi=False
    )


def test_what_each_depth_costs_is_the_cost_of_a_dev_text(tmp_path: Path, pos: Path) -> None:
    """The texts of dev are twice as long as the texts of train."""
    train = [(text, label) for text, label, *_ in rows(32, 0)]
    dev = [(f"{text} {text}", label) for text, label in train[:16]]
    view = encoded_in(tmp_path, pos, {"train": train, "dev": dev, "test": train[:8]}, "en")
    folder = trained(view, tmp_path / "model", {"kind": "linear"}, epochs=1)
    prune_model("mine", view, folder, REFUSED, "auto", tmp_path / "pruned")
    saved = load(folder)
    assert read_finished(tmp_path / "pruned")["about"]["tradeoff"][-1]["flops"] == flops(saved.model, 8, saved.frame)


def test_what_each_depth_costs_is_counted_on_the_cpu(
    tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pruning result from the CPU is passed on with a device that, like a GPU, refuses CPU tensors."""
    view, found, kept = tagged(tmp_path, pos), list[PruningResult](), depth.prune
    folder = trained(view, tmp_path / "model", {"kind": "linear"}, epochs=1)

    def noted(*arguments: Any, **settings: Any) -> PruningResult:
        found.append(kept(*arguments, **settings))
        return found[-1]

    monkeypatch.setattr("epigram.pruning.prune_model.prune", noted)
    prune_model("mine", view, folder, REFUSED, "auto", tmp_path / "cpu")
    monkeypatch.setattr("epigram.pruning.prune_model.prune", lambda model, *_, **__: replace(found[0], model=model))
    monkeypatch.setattr("epigram.pruning.prune_model.default_device", lambda: torch.device("meta"))
    prune_model("mine", view, folder, REFUSED, "auto", tmp_path / "meta")
    on_cpu, on_meta = (read_finished(tmp_path / device)["about"]["tradeoff"] for device in ("cpu", "meta"))
    assert len(on_cpu) == 3
    assert on_meta == on_cpu


def test_a_pruned_model_has_thresholds_of_its_own_and_one_that_is_kept_whole_its_old_ones(
    tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = [(text, [label]) for text, label, *_ in rows(32, 0)]
    view = encoded_in(tmp_path, pos, dict.fromkeys(("train", "dev", "test"), several), "en", task="multi")
    folder = trained(view, tmp_path / "model", {"kind": "linear"}, precision="fp32", epochs=1)
    monkeypatch.setattr("epigram.pruning.prune_model.tune", lambda model, *_, **__: [model.depth / 10, 0.9])
    for name, settings in (("pruned", DROPS), ("whole", REFUSED)):
        prune_model("mine", view, folder, settings, "auto", tmp_path / name)
    assert load(tmp_path / "pruned").thresholds == [0.1, 0.9]
    assert load(tmp_path / "whole").thresholds == load(folder).thresholds != [0.1, 0.9]


@pytest.mark.parametrize("head", [{"kind": "linear"}, {"kind": "layer_ensemble", "mode": "ensemble"}])
def test_a_run_in_float32_is_judged_in_it(
    head: dict[str, Any], tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(kind: str) -> bool:
        raise AssertionError("only precision auto wants to know")

    monkeypatch.setattr(precision, "has_fast_bf16", asked)
    several = [(text, [label]) for text, label, *_ in rows(32, 0)]
    view = encoded_in(tmp_path, pos, dict.fromkeys(("train", "dev", "test"), several), "en", task="multi")
    folder = trained(view, tmp_path / "model", head, precision="fp32", epochs=1)
    prune_model("mine", view, folder, DROPS, "auto", tmp_path / "pruned")
    measured, saved = measure(tmp_path / "pruned", view), load(tmp_path / "pruned")
    alone = predict(saved.model, batches_of(view, "dev", saved.frame), precision="fp32")
    assert saved.model.depth < 3
    np.testing.assert_array_equal(measured.dev.logits, alone.logits)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(("system", "depth"), [("tfidf_svm", None), ("frozen", 3), ("one_layer", 1)])
def test_a_model_that_the_manifest_rules_out_is_recorded_as_if_it_were_loaded(
    system: str, depth: int | None, enabled: bool, tmp_path: Path, pos: Path
) -> None:
    view = tagged(tmp_path / "data", pos)
    frozen = Recipe(
        name="frozen", about="", paper="", view="token", model={"kind": "frozen_classifier"}, encoder=ENCODER
    )
    one_layer = replace(frozen, name="one_layer", model={"kind": "classifier"}, encoder={**ENCODER, "depth": 1})
    one_layer = one_layer.changed(train={"epochs": 1})
    recipe = {"frozen": frozen, "one_layer": one_layer, **RECIPES}[system]
    config = resolve_threads(configure(system, recipe), recipe, None)
    settings = PruneSettings(enabled=enabled)
    train_seed(system, recipe, config, view, None, 0, tmp_path / "seed-0")
    prune_model(system, view, tmp_path / "seed-0", settings, "auto", tmp_path / "pruned")
    loaded = SeedPruning.from_dict(read_finished(tmp_path / "pruned")["about"])
    assert unpruned_records(tmp_path, [0], settings) == [loaded]
    assert loaded.depth == depth


@pytest.mark.parametrize("enabled", [True, False])
def test_a_model_of_several_layers_that_was_trained_by_gradient_has_to_be_loaded(
    enabled: bool, tmp_path: Path, pos: Path
) -> None:
    view = tagged(tmp_path / "data", pos)
    trained(view, tmp_path / "seed-0", {"kind": "linear"}, epochs=1)
    assert unpruned_records(tmp_path, [0], PruneSettings(enabled=enabled)) == []


def test_resume_state_of_another_precision_is_discarded(
    tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*arguments: Any) -> None:
        arguments[-1].mkdir(parents=True, exist_ok=True)
        raise KeyboardInterrupt

    view = tagged(tmp_path / "data", pos)
    trained(view, tmp_path / "models/seed-0", {"kind": "linear"}, epochs=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epigram.pruning.prune_model.prune_model", stop)

    def start() -> None:
        prune_system("mine", DROPS, "auto", [0], view.folder, Path("models"), Path("out"), state=Path("state"))

    assert discards(start, KeyboardInterrupt, monkeypatch, capsys) == [False, False, True]


def test_a_student_keeps_its_layers_and_its_record(tmp_path: Path, pos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fine-tuning would learn labels alone."""
    monkeypatch.chdir(tmp_path)
    view = tagged(tmp_path / "data", pos)
    folder = trained(view, tmp_path / "models/seed-0", {"kind": "linear"}, epochs=1)
    manifest = read_json(folder / "manifest.json")
    write_json(folder / "manifest.json", manifest | {"provenance": manifest["provenance"] | {"teacher": "0" * 64}})
    (tmp_path / "models/student.json").write_text("{}")
    prune_system(
        "mine", DROPS, "auto", [0], view.folder, tmp_path / "models", tmp_path / "out", state=tmp_path / "state"
    )
    record = PruningRecord.read(tmp_path / "out")
    assert record is not None
    assert (record.seeds[0].accepted, record.seeds[0].depth) == (False, 3)
    assert "labels alone, not what the teacher taught" in record.seeds[0].reason
    assert (tmp_path / "out/student.json").read_text() == "{}"
    assert load(tmp_path / "out/seed-0").model.depth == 3
