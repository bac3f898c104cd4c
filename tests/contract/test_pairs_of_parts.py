"""Every pair of parts that is not refused works: a covering array of combinations is trained, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.errors import ParameterError
from epigram.evaluation.metrics.primary import metric_of
from epigram.models.predict import predict
from epigram.models.serialization import load, save
from epigram.nn import encoders, heads
from epigram.pruning.depth import prune
from epigram.training.config import TrainingConfig
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from epigram.training.preflight import check_systems
from tests.support.combinations import (
    ENCODERS,
    FACTORS,
    HEADS,
    REFUSALS,
    WITH_LAYERS,
    combinations,
    refusal_of,
)
from tests.support.combined_systems import (
    DEPTH,
    PRUNING,
    checkpoints,
    context_of,
    recipe_of,
    system_of,
    texts_of,
    view_of,
)
from tests.support.covering import Case, Level, all_pairs, complete, pairs_of
from tests.support.outputs import logits, padded
from tests.support.small_systems import LABELS, MAX_LENGTH, frame_of

CASES = combinations()
REFUSED = [pair for pair in all_pairs(FACTORS) if refusal_of(*pair)]
CONFIG = TrainingConfig(epochs=1, batch_size=8, learning_rate=1e-3, threads=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return checkpoints(tmp_path_factory.mktemp("checkpoints"))


def check(case: Case, folders: dict[str, str]) -> None:
    """Check the combination as a run does before it starts."""
    view, system = view_of(case, folders), system_of(case)
    check_systems({"view": view}, {"x": system}, {}, multi=case["labels"] == "several")


def pruned(model: Any, case: Case, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the model without some of its layers, as the stage `prune` returns it."""
    texts, (left, settings) = texts_of(case), PRUNING[case["prune"]]
    if case["prune"] == "worst":
        monkeypatch.setattr("epigram.pruning.depth.layer_accuracies", lambda *_, **__: [0.1, 0.9, 0.9])
    result = prune(
        model,
        texts,
        texts,
        classes=len(LABELS),
        settings=settings,
        config=CONFIG,
        seed=0,
        metric=metric_of("auto", "single", []),
    )
    if case["encoder"] in WITH_LAYERS:
        assert result.accepted and result.model.depth == left, result.reason
    else:
        assert result.reason == "no layers to drop"
    return result.model


def name_of(case: Case) -> str:
    return "-".join(case.values()).replace(" ", "_")


@pytest.mark.extended
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_combination_trains_saves_loads_and_predicts(
    case: Case, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(case, folders)
    torch.manual_seed(0)
    recipe, texts = recipe_of(case), texts_of(case)
    model: Any = recipe.build(context_of(case, folders))
    assert model.depth == (DEPTH if case["encoder"] in WITH_LAYERS else 0)
    initial = {name: weight.clone() for name, weight in model.named_parameters()}
    Trainer(model, label_objective(texts, texts, CONFIG), seed=0).run()  # two steps
    assert any(not torch.equal(weight, initial[name]) for name, weight in model.named_parameters())
    if case["prune"] != "none":
        model = pruned(model, case, monkeypatch)

    rows = texts.gather(np.arange(8))
    together = logits(model, rows)
    assert np.isfinite(together).all()
    text_logits = together[:, : len(LABELS)]
    assert len(np.unique(text_logits, axis=0)) > 1  # the output depends on the text
    for row in (0, 7):
        alone = texts.gather(np.array([row]))
        wide = padded(alone, MAX_LENGTH - alone.ids.shape[1])
        np.testing.assert_allclose(logits(model, wide)[0], together[row], atol=2e-5)

    (tmp_path / "tokenizer.json").write_text("{}")
    tokenizer, frame = tmp_path / "tokenizer.json", frame_of(recipe)
    save(tmp_path / "model", model, recipe=recipe, frame=frame, labels=LABELS, tokenizer=tokenizer, facts={})
    loaded = load(tmp_path / "model").model
    again, before = predict(loaded, texts), predict(model, texts)
    np.testing.assert_array_equal(again.logits, before.logits)
    np.testing.assert_array_equal(again.tokens, before.tokens)
    if case["POS"] != "none":
        equal_weights(loaded)
        assert not np.array_equal(logits(loaded, rows), together)


def equal_weights(model: Any) -> None:
    """Set the part-of-speech weights of all tokens to 1."""
    tables = [part for name, part in model.named_buffers() if name.rpartition(".")[2] == "pos_weight"]
    assert tables
    for table in tables:
        table.fill_(1.0)


@pytest.mark.parametrize(("one", "other"), REFUSED)
def test_a_refused_pair_is_refused_with_its_reason(one: Level, other: Level, folders: dict[str, str]) -> None:
    refusal = refusal_of(one, other)
    assert refusal is not None
    case = smallest_case(one, other)
    with pytest.raises(ParameterError, match=rf"^params.yaml: systems\.x[:.].*{refusal.message}") as error:
        check(case, folders)
    assert "\n" not in str(error.value)


def smallest_case(one: Level, other: Level) -> Case:
    """Return a combination whose only refused pair is this one or, if there is none, with others of its message."""
    refusal = refusal_of(one, other)

    def same_message(a: Level, b: Level) -> bool:
        found = refusal_of(a, b)
        return found is None or (refusal is not None and found.message == refusal.message)

    fixed = dict((one, other))
    case = complete(FACTORS, lambda a, b: refusal_of(a, b) is None, fixed) or complete(FACTORS, same_message, fixed)
    assert case is not None
    return case


def test_every_registered_part_is_combined() -> None:
    assert set(encoders.KINDS) <= set(ENCODERS)
    assert {name.removeprefix("soft ") for name in HEADS} == set(heads.KINDS)


def test_the_combinations_contain_every_pair_that_is_not_refused() -> None:
    covered = {pair for case in CASES for pair in pairs_of(case)}
    assert covered == {frozenset(pair) for pair in all_pairs(FACTORS)} - {frozenset(pair) for pair in REFUSED}


def test_every_refusal_has_a_pair_of_its_own() -> None:
    for refusal in REFUSALS:
        assert any(refusal_of(*pair) is refusal for pair in REFUSED), refusal.message
