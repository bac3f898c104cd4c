"""Tests of an encoder that is trained on pairs of texts, with a logistic regression on its encodings."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import batches_of, template_of
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.predict import predict
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.models.settings import System
from epigram.pruning.prune_model import prune_model
from epigram.pruning.settings import PruneSettings
from epigram.recipes.registry import RECIPES
from epigram.text.settings import ViewSettings
from epigram.training.check_system import check_student, check_system
from epigram.training.config import TrainingConfig, configure
from epigram.training.fit_system import fit_system
from epigram.training.fitters import KINDS, ON_FOLDS, FitOptions, Fold, FoldResults, Trained
from epigram.training.fitters.frozen_classifier import LogisticSettings
from epigram.training.frozen.known_encodings import FILE
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.progress import Progress
from epigram.training.preflight import placeholder_spec
from epigram.training.resume import read_finished
from tests.support.runs import Always, Fatal, KilledError
from tests.support.small_systems import build, recipe_of
from tests.support.text_samples import EN
from tests.support.trained import setup_of, train_seed

NAME, KIND, TOKENS, FIRST = "setfit", "contrastive_classifier", 40, 10
CONFIG = TrainingConfig(epochs=30, batch_size=16, learning_rate=0.03, weight_decay=0.0, precision="fp32")
OPTIONS = FitOptions(config=CONFIG, path="systems.x", seed=0)
RECIPE = RECIPES[NAME].changed(model={"kind": KIND}, encoder={"kind": "embedding", "width": 4, "dropout": 0.0})


def texts_from(rows: list[list[int]], labels: Any) -> TextBatches:
    ids = Ragged.from_lists(rows, np.int32)
    return TextBatches(ids, prefix=[], suffix=[], max_length=8, pad_id=0, unk_id=1, labels=np.asarray(labels, np.int64))


def mixed(count: int = 120, seed: int = 0) -> TextBatches:
    """Return texts of two tokens of one class; each of the 40 tokens is of a random class of two."""
    random = np.random.default_rng(seed)
    tokens = FIRST + np.random.default_rng(9).permutation(TOKENS).reshape(2, -1)
    labels = random.integers(0, 2, count)
    return texts_from([random.choice(tokens[label], 2).tolist() for label in labels], labels)


def model_of(seed: int = 0, recipe: Recipe = RECIPE) -> Any:
    return build(recipe, seed)


def fit(texts: TextBatches, dev: TextBatches | None = None, options: FitOptions = OPTIONS) -> Trained:
    return KINDS[KIND](model_of(), texts, dev or texts, options)


def accuracy(model: Any, texts: TextBatches) -> float:
    return predict(model, texts).score(np.asarray(texts.labels))


def test_training_on_pairs_separates_what_a_frozen_encoder_does_not() -> None:
    """Random vectors of width 4 cannot tell 40 tokens of random classes; trained vectors can, on other texts too."""
    frozen = KINDS["frozen_classifier"](model_of(), mixed(), mixed(), OPTIONS).model
    assert accuracy(frozen, mixed(seed=1)) < 0.8
    assert accuracy(fit(mixed()).model, mixed(seed=1)) > 0.97


def test_texts_of_one_label_become_similar_and_others_orthogonal() -> None:
    model, texts = fit(mixed()).model, mixed(seed=1)
    with torch.inference_mode():
        states = model.head.text_states(model.encode(texts.gather(np.arange(len(texts))))).numpy()
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    labels = np.asarray(texts.labels)
    cosines, same = states @ states.T, labels[:, None] == labels
    assert cosines[same].mean() > 0.9
    assert abs(cosines[~same].mean()) < 0.1


def test_the_head_is_the_regression_on_the_trained_encodings() -> None:
    texts = mixed(60)
    trained = fit(texts).model
    again = KINDS["frozen_classifier"](deepcopy(trained), texts, texts, OPTIONS).model
    assert_array_equal(trained.head.out.weight.detach(), again.head.out.weight.detach())


def test_the_training_takes_all_planned_steps_without_dev() -> None:
    texts, reports = mixed(60), list[Progress]()
    options = replace(OPTIONS, choice=on_folds(texts).choice, report=reports.append)
    trained = KINDS[KIND](model_of(), texts, None, options)
    assert (trained.epoch, trained.history, trained.dev_accuracy) == (0, [], 0.0)
    assert (reports[-1].epoch, reports[-1].step) == (30, reports[-1].steps)
    KINDS[KIND](model_of(), texts, None, replace(options, config=replace(CONFIG, min_steps=60 * 4)))
    assert (reports[-1].epoch, reports[-1].step) == (60, reports[-1].steps)


def test_the_only_text_of_a_label_is_kept_in_the_head() -> None:
    single = texts_from([*([[FIRST], [FIRST + 1]] * 10), [FIRST + 2]], [*([0, 1] * 10), 2])
    assert accuracy(fit(single).model, single) == 1.0


def digest(model: Any) -> list[NDArray[Any]]:
    return [value.numpy() for value in model.state_dict().values()]


def test_the_seed_draws_the_batches() -> None:
    one, again, other = (fit(mixed(60), options=replace(OPTIONS, seed=seed)).model for seed in (0, 0, 1))
    assert all(map(np.array_equal, digest(one), digest(again)))
    assert not all(map(np.array_equal, digest(one), digest(other)))


def folds_of(texts: TextBatches, folder: Path | None = None, held_out: int = 2) -> list[Fold]:
    """Return folds of every second text, kept in `folder`."""
    found = []
    for number in range(held_out):
        place = np.arange(len(texts)) % held_out
        rows = np.flatnonzero(place != number), np.flatnonzero(place == number)
        kept = folder and folder / f"fold-{number}"
        options = replace(OPTIONS, checkpoints=None if kept is None else Always(kept.with_name(f"{kept.name}-steps")))

        def load_fold(rows: Any = rows) -> tuple[NeuralClassifier, TextBatches, TextBatches]:
            return model_of(), texts.part(rows[0]), texts.part(rows[1])

        found.append(Fold(load_fold, options, kept))
    return found


def on_folds(texts: TextBatches, folder: Path | None = None) -> FoldResults:
    return ON_FOLDS[KIND](folds_of(texts, folder))


def test_labels_that_nothing_tells_are_not_predicted_out_of_fold() -> None:
    """Each text has a token of its own. An encoder that has seen the held-out texts would know their labels."""
    labels = np.random.default_rng(3).integers(0, 2, TOKENS)
    texts = texts_from([[FIRST + n] for n in range(TOKENS)], labels)
    assert accuracy(fit(texts).model, texts) == 1.0
    right = [
        (predicted.logits.argmax(1) == labels[number::2]).mean()
        for number, predicted in enumerate(on_folds(texts).predictions)
    ]
    assert np.mean(right) < 0.65


def test_the_labels_of_a_fold_do_not_reach_its_encoder(tmp_path: Path) -> None:
    texts, other = mixed(60), mixed(60)
    other.labels = torch.where(torch.arange(60) % 2 == 0, 1 - other.labels, other.labels)  # type: ignore[operator]
    for name, each in (("one", texts), ("other", other)):
        on_folds(each, tmp_path / name)
    same = [
        (tmp_path / "one" / fold / FILE).read_bytes() == (tmp_path / "other" / fold / FILE).read_bytes()
        for fold in ("fold-0", "fold-1")
    ]
    assert same == [True, False]


def test_the_folds_choose_the_settings_of_the_final_head() -> None:
    texts = mixed(60)
    found = on_folds(texts)
    final = KINDS[KIND](model_of(), texts, None, replace(OPTIONS, choice=found.choice)).model
    other = replace(OPTIONS, choice=found.choice._replace(penalty=0.001))
    weak = KINDS[KIND](model_of(), texts, None, other).model
    assert_array_equal(final.encoder.token_table.weight.detach(), weak.encoder.token_table.weight.detach())
    assert (
        np.abs(weak.head.out.weight.detach().numpy()).sum() < 0.5 * np.abs(final.head.out.weight.detach().numpy()).sum()
    )


@pytest.mark.parametrize("died", [0, 1])
def test_a_finished_fold_is_not_trained_again(died: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, steps = mixed(60), 30 * 2
    whole = on_folds(texts)
    folds = folds_of(texts, tmp_path)
    load_fold: Callable[[], Any] = folds[died].load

    def killed() -> Any:
        model, train, dev = load_fold()
        train.__class__, train.last = Fatal, steps // 2 + 3
        return model, train, dev

    with pytest.raises(KilledError):
        ON_FOLDS[KIND]([*folds[:died], replace(folds[died], load=killed)])
    assert [(tmp_path / f"fold-{n}" / FILE).exists() for n in range(2)] == [n < died for n in range(2)]
    newest = max(tmp_path.glob("*-steps/step-*"))
    assert newest.parent.name == f"fold-{died}-steps"
    assert int(newest.name[-8:]) == steps // 2 + 3
    again = on_folds(texts, tmp_path)
    for one, other in zip(again.predictions, whole.predictions, strict=True):
        assert_array_equal(one.logits, other.logits)
    assert again.choice == whole.choice
    assert not list(tmp_path.glob("*-steps"))
    monkeypatch.setattr("epigram.training.fitters.contrastive_classifier.Trainer", None)
    assert_array_equal(on_folds(texts, tmp_path).predictions[1].logits, whole.predictions[1].logits)


def test_a_killed_training_ends_as_one_that_was_not(tmp_path: Path) -> None:
    texts, dying = mixed(60), mixed(60)
    dying.__class__, dying.last = Fatal, 50  # type: ignore[attr-defined]
    options = replace(OPTIONS, checkpoints=Always(tmp_path / "steps"))
    with pytest.raises(KilledError):
        KINDS[KIND](model_of(), dying, texts, options)
    checkpoints = Checkpoints(tmp_path / "steps")
    state = checkpoints.latest()
    assert state is not None
    assert state.facts["position"]["step"] == 50
    again = KINDS[KIND](model_of(seed=4), texts, texts, replace(options, checkpoints=checkpoints)).model
    assert all(map(np.array_equal, digest(again), digest(fit(texts).model)))


def test_batches_have_at_most_max_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    gather = TextBatches.gather

    def counted(self: TextBatches, rows: Any) -> Any:
        sizes.append(len(rows))
        return gather(self, rows)

    monkeypatch.setattr(TextBatches, "gather", counted)
    texts = texts_from([[FIRST] * 5, [FIRST + 1] * 2] * 16, [0, 1] * 16)
    KINDS[KIND](
        model_of(), texts, None, replace(OPTIONS, config=replace(CONFIG, max_tokens=31), choice=LogisticSettings(1.0))
    )
    assert max(sizes[:30]) == 6  # of up to five tokens


def test_the_saved_model_answers_like_the_trained_one(encoded: Any, tmp_path: Path) -> None:
    view, recipe = encoded(EN, "en"), recipe_of(NAME)
    config = replace(configure("x", recipe), threads=1, min_steps=4)
    train_seed("x", recipe, config, view, None, 0, tmp_path / "trained")
    saved = load(tmp_path / "trained")
    assert (type(saved.model), saved.model.depth) == (NeuralClassifier, 2)
    trained = fit_system(setup_of(recipe, config, view)).model
    texts = batches_of(view, "dev", template_of(view, config.max_length, trained), torch.device("cpu"))
    trained.temperature.fill_(float(saved.model.temperature))
    assert_array_equal(predict(saved.model, texts).logits, predict(trained, texts).logits)
    prune_model(
        "x", view, tmp_path / "trained", PruneSettings(rule="shallowest", tolerance=1.0), "auto", tmp_path / "pruned"
    )
    about = read_finished(tmp_path / "pruned")["about"]  # it would be fine-tuned on labels
    assert (about["accepted"], about["depth_full"], about["depth"]) == (False, 2, 2)
    assert about["reason"] == "the head is fitted to the encoder as it is"


@pytest.mark.parametrize("head", ["linear", "linear_ngrams"])
def test_either_linear_head_learns(head: str) -> None:
    texts = mixed()
    recipe = RECIPE.changed(head={"kind": head, **({"buckets": 50} if head == "linear_ngrams" else {})})
    assert accuracy(KINDS[KIND](model_of(recipe=recipe), texts, texts, OPTIONS).model, mixed(seed=1)) > 0.97


def test_a_head_with_more_to_learn_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"model.kind is contrastive_classifier, which fits one linear layer; set"):
        build(recipe_of(NAME).changed(head={"pool": "attention"}))


def checked(shared: dict[str, Any] | None = None, **system: Any) -> list[str]:
    context = placeholder_spec(ViewSettings(tokenizer="wordpiece"), multi=False, tokens=False)
    return check_system("x", System(view="v", recipe=NAME, **system), shared or {}, context)


@pytest.mark.parametrize(
    "settings",
    [
        {"head": {"dropout": 0.3}},
        {"train": {"patience": 3}},
        {"train": {"stop_on": "token"}},
        {"train": {"schedule": "plateau"}},
    ],
)
def test_settings_of_another_training_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="the model contrastive_classifier learns from pairs of texts; remove it"):
        checked(**settings)


def test_it_is_no_student() -> None:
    context = placeholder_spec(ViewSettings(tokenizer="wordpiece"), multi=False, tokens=False)
    with pytest.raises(
        ParameterError, match="because the model contrastive_classifier learns from pairs of texts; use"
    ):
        check_student("x", System(view="v", recipe=NAME, teacher="runs/a/model"), {}, context, "data/local/texts.txt")


def test_a_shared_setting_without_effect_is_a_warning() -> None:
    assert checked(train={"epochs": 3, "schedule": "constant"}, encoder={"small": {"dropout": 0.3}}) == []
    reason = "the model contrastive_classifier learns from pairs of texts"
    assert checked({"stop_on": "token", "clip": 2.0}) == [f"params.yaml: no effect: train.stop_on ({reason})"]


def test_texts_with_the_same_labels_become_similar_where_a_text_has_several() -> None:
    """Tokens 0 and 1 have both labels, 2 and 3 the first one, 4 and 5 none."""
    sets = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], np.uint8)
    texts = texts_from([[FIRST + n] for n in range(6)] * 5, np.repeat(sets, 2, 0).tolist() * 5)
    model: Any = build(RECIPE, multi=True)
    KINDS[KIND](model, texts, texts, OPTIONS)
    vectors = model.encoder.token_table.weight.detach().numpy()[FIRST : FIRST + 6]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, np.kron(np.eye(3), np.ones((2, 2))), atol=0.1)
