"""Decisions of a retraining: what it trains, and which drift starts one. All other parts are mocked."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import flows.drift
from epigram.core.errors import EpigramError, ParameterError
from epigram.monitoring.drift import Measure
from epigram.runner.champions import champion
from epigram.runner.retraining import drift, ingest, refresh
from epigram.runner.retraining.drift import Drift, NewTexts
from epigram.runner.retraining.retraining import Retraining, open_session
from epigram.runner.workspace import overrides
from tests.support.toy import Toy

LOG = logging.getLogger(__name__)
PARAMS = """\
dataset: shop
seeds: [0]
views: {token: {tokenizer: token}}
systems: {textcnn: {view: token}, tfidf_svm: {view: token}}
retrain: {systems: [tfidf_svm]}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a params.yaml; nothing is sent to Prefect."""
    (tmp_path / "params.yaml").write_text(PARAMS)
    monkeypatch.setattr(flows.drift, "get_run_logger", lambda: LOG)
    return tmp_path


def retraining(ingestion: ingest.Ingestion) -> Retraining:
    new: Any = SimpleNamespace()
    return Retraining(promoted=True, reason="better: it is", run="r", ingestion=ingestion, champion=new)


def test_a_retraining_trains_its_own_systems_on_the_data_set_that_grows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(champion, "check_can_promote", asked.append)
    monkeypatch.setattr(champion, "current", lambda _: None)
    monkeypatch.setattr(overrides, "check", lambda _: None)
    with open_session(root, None) as session:
        assert asked == [root]  # before any training
        request = session.request(ingest.Ingestion(dataset=session.dataset))
    assert (request.dataset, request.systems) == ("shop_live", ("tfidf_svm",))


def test_the_retraining_of_another_data_set_than_the_champion_s_is_refused_first(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(champion, "current", lambda _: SimpleNamespace(dataset="other_live"))
    with pytest.raises(ParameterError, match="trained on other_live"), open_session(root, "shop"):
        pass


@pytest.mark.parametrize(
    ("file", "labelled", "retrained"), [(None, 9, True), (None, 0, False), ("own.csv", 9, False), ("own.csv", 0, False)]
)
def test_only_drift_of_labelled_texts_that_wait_starts_a_retraining(
    root: Path, monkeypatch: pytest.MonkeyPatch, file: str | None, labelled: int, retrained: bool
) -> None:
    began: list[Path] = []

    def retrain(root: Path, **_: Any) -> Any:
        began.append(root)
        return SimpleNamespace(result=lambda **_: retraining(ingest.Ingestion(dataset="shop_live")))

    moved = Measure(name="unknown", index=2.0, chance=0.1, drifted=True)
    found = Drift(champion=1, texts=9, labelled=labelled, threshold=0.25, measures=(moved,))
    monkeypatch.setattr(flows.drift, "drift", lambda *_: found)
    monkeypatch.setattr(flows.drift, "retrain", retrain)
    state = flows.drift.drift_check.fn(root, file)
    assert began == [root] * retrained
    assert state.data.outcome.startswith("promoted: better" if retrained else "to retrain on such texts")


@pytest.mark.parametrize("skipped", [(), ("a.csv is empty",)])
def test_a_retraining_that_drift_starts_and_that_skips_files_fails_and_names_them(
    root: Path, monkeypatch: pytest.MonkeyPatch, skipped: tuple[str, ...]
) -> None:
    moved = Measure(name="unknown", index=2.0, chance=0.1, drifted=True)
    found = Drift(champion=1, texts=9, labelled=9, threshold=0.25, measures=(moved,))
    ended = SimpleNamespace(result=lambda **_: retraining(ingest.Ingestion(dataset="shop_live", skipped=skipped)))
    monkeypatch.setattr(flows.drift, "drift", lambda *_: found)
    monkeypatch.setattr(flows.drift, "retrain", lambda *_, **__: ended)
    state = flows.drift.drift_check.fn(root)
    assert state.is_failed() == bool(skipped)
    assert ("skipped: a.csv is empty" in state.message) == bool(skipped)
    assert state.data.outcome.startswith("promoted: better")


def test_drift_during_a_retraining_starts_no_second_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = Measure(name="unknown", index=2.0, chance=0.1, drifted=True)
    found = Drift(champion=1, texts=9, labelled=9, threshold=0.25, measures=(moved,))
    monkeypatch.setattr(flows.drift, "drift", lambda *_: found)
    monkeypatch.setattr(flows.drift, "retrain", lambda *_, **__: pytest.fail("a second retraining"))
    with champion.lock(root):
        state = flows.drift.drift_check.fn(root)
    assert state.is_completed() and state.data.outcome.startswith("a retraining is running")


def test_a_stage_that_is_up_to_date_is_made_again(done: Toy) -> None:
    done.tell({"gather": {"files": {"new.txt": "other"}}})
    assert refresh.rerun(done.root, "gather", LOG)
    assert done.journal() == ["gather"]


@pytest.mark.parametrize(("code", "reported"), [(75, 75), (65, 70)])
def test_a_stage_that_is_made_again_and_fails_can_be_tried_again_after_75(done: Toy, code: int, reported: int) -> None:
    done.tell({"gather": {"codes": [code]}})
    with pytest.raises(EpigramError, match=rf"^gather failed \(exit {code}\): exit code {code}") as raised:
        refresh.rerun(done.root, "gather", LOG)
    assert raised.value.code == reported


def test_a_drift_check_writes_its_measures(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Drift(champion=4, texts=9, labelled=0, threshold=0.25)
    monkeypatch.setattr(champion, "current", lambda _: SimpleNamespace(number=4, dataset="shop_live"))
    monkeypatch.setattr(champion, "restore", lambda *_: root)
    monkeypatch.setattr(champion, "check_reference", lambda *_: None)
    monkeypatch.setattr(drift, "new_texts", lambda *_: NewTexts([], [], 0))
    monkeypatch.setattr(drift, "measure", lambda folder, number, new, threshold: found)
    assert drift.check(root, None) == found
    (written,) = (root / "runs" / "drift").glob("*.json")
    assert json.loads(written.read_text()) == found.as_json() | {"measures": []}
