"""Trials of a search: known scores, results that are kept, time limits, and a test set that is not read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epigram.core.errors import EpigramError, ParameterError
from epigram.runner.search import trials as module
from epigram.runner.search.trial_process import TrialProcess
from epigram.runner.search.trials import Trials
from epigram.text.dataset.encoded_dataset import View
from epigram.training.trials.sample import SampledView
from epigram.training.trials.spec import TrialResult, TrialSpec
from tests.support.bad_input import Workshop
from tests.support.certain import LABELS, SYSTEMS, lines, one_label, prepared

SPEC = TrialSpec(name="tfidf_svm", system=SYSTEMS["tfidf_svm"], rows=100)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """All stages before train, on a corpus whose words decide the labels; the test set is gone."""
    found = prepared(Workshop(tmp_path_factory.mktemp("trials")), lines(one_label), ["tfidf_svm"])
    for file in (found.root / "data/encoded/token").glob("test.*"):
        file.unlink()
    return found


@pytest.fixture
def trials(shop: Workshop, tmp_path: Path) -> Iterator[Trials]:
    with closing(Trials(shop.root, tmp_path / "kept")) as found:
        yield found


def kept(trials: Trials) -> list[Path]:
    return sorted(trials.kept.glob("*.json"))


def test_a_trial_has_the_score_of_held_out_texts_and_is_kept(trials: Trials) -> None:
    result = trials.run(SPEC, 120)
    assert result is not None
    assert (result.score, result.rows) == (1.0, 100)
    assert result.seconds > 0 and result.ms_per_text > 0
    (file,) = kept(trials)
    before = file.stat().st_mtime_ns
    assert trials.run(SPEC, 0.0) == result and file.stat().st_mtime_ns == before  # 0 s would end a new process
    other = TrialSpec(name="tfidf_svm", system=SYSTEMS["tfidf_svm"], rows=50)
    assert trials.run(other, 0.0) is None and kept(trials) == [file]


def test_a_trial_whose_kept_result_is_damaged_is_run_again(trials: Trials) -> None:
    result = trials.run(replace(SPEC, rows=20), 120)
    assert result is not None
    (file,) = kept(trials)
    for damage in (b"", b"{}", b"no JSON", b"\xff\xfe", b'{"score": "high"}'):
        file.write_bytes(damage)
        again = trials.run(replace(SPEC, rows=20), 120)
        assert again is not None and (again.score, again.rows) == (result.score, 20), damage
        assert kept(trials) == [file] and TrialResult.read(file) == again, damage


def test_one_process_runs_all_trials_until_one_fails(trials: Trials) -> None:
    few, more = (TrialSpec(name="tfidf_svm", system=SPEC.system, rows=rows) for rows in (30, 60))
    process = trials._process
    assert process is not None
    assert trials.run(few, 120) is not None and trials.run(more, 120) is not None
    assert trials._process is process and process.child.poll() is None
    with pytest.raises(EpigramError, match="failed"):
        trials.run(replace(few, system={"view": "token", "model": {"orders": [3, 1]}}), 120)
    assert process.child.returncode == ParameterError.code
    found = trials.run(SPEC, 120)
    assert found is not None and trials._process is not process
    process = trials._process
    trials.close()
    assert process is not None and process.child.returncode is not None


def test_a_result_does_not_depend_on_the_trials_before_it(trials: Trials, shop: Workshop, tmp_path: Path) -> None:
    network = TrialSpec(name="textcnn", system={"view": "token", "train": {"epochs": 1}}, rows=40)
    trials.run(SPEC, 120)
    trials.run(replace(network, rows=60), 120)
    after = trials.run(network, 120)
    with closing(Trials(shop.root, tmp_path / "other")) as others:
        first = others.run(network, 120)
    assert after is not None and first is not None
    assert (after.score, after.loss) == (first.score, first.loss)


def test_a_trial_has_the_settings_that_all_systems_share(trials: Trials) -> None:
    network = TrialSpec(name="textcnn", system={"view": "token", "train": {"epochs": 1}}, rows=40)
    own, still = (trials.run(replace(network, train=train), 120) for train in ({}, {"learning_rate": 1e-9}))
    assert own is not None and still is not None and own.loss < still.loss - 0.01
    with pytest.raises(EpigramError, match=r"failed: params.yaml: train.epochs is 0"):
        trials.run(replace(network, train={"epochs": 0}), 120)


def test_a_result_has_the_steps_that_were_taken(trials: Trials) -> None:
    """Of four planned steps, two are taken with a rate that is too low to change anything, each with an evaluation."""
    system = {"view": "token", "train": {"epochs": 4, "batch_size": 64, "learning_rate": 1e-30}}
    for patience, taken in ((1, 2.0), (5, 4.0)):
        result = trials.run(TrialSpec(name="textcnn", system=system, rows=40, train={"patience": patience}), 120)
        assert result is not None and (result.steps, result.evaluations) == (taken, taken)
    closed = trials.run(replace(SPEC, rows=40), 120)
    assert closed is not None and (closed.steps, closed.evaluations) == (0.0, 0.0)


def test_an_error_of_several_lines_is_shown_in_one(tmp_path: Path) -> None:
    process = object.__new__(TrialProcess)
    process._printed = tmp_path / "printed"
    process._printed.write_text("error: an older one\nwarning\nerror: loss is NaN at step 3\nrows 1, 2\n")
    assert process.error == "loss is NaN at step 3 rows 1, 2"
    process.child = SimpleNamespace(returncode=-9)  # type: ignore[assignment]
    process._printed.write_text("a library's warning\n")
    assert process.error == "exit code -9, last line: a library's warning"
    process._printed.write_text("")
    assert process.error == "exit code -9"


def test_another_pretrained_encoder_is_another_trial(trials: Trials, shop: Workshop) -> None:
    about = shop.root / "data/pretrained/token/about.json"
    before, content = trials._key(SPEC), about.read_bytes()
    about.write_text('{"steps": 0, "texts": 1}')
    with closing(Trials(shop.root, trials.kept)) as others:
        assert others._key(SPEC) != before
        about.write_bytes(content)
    with closing(Trials(shop.root, trials.kept)) as others:
        assert others._key(SPEC) == before


def test_a_machine_with_other_processors_has_other_trials(
    trials: Trials, shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "count_processors", lambda: 64)
    with closing(Trials(shop.root, trials.kept)) as others:
        assert others._key(SPEC) != trials._key(SPEC)


def test_a_trial_that_takes_too_long_is_ended(trials: Trials) -> None:
    assert trials.run(SPEC, 0.1) is None
    assert kept(trials) == []


def test_a_trial_that_fails_names_its_error(trials: Trials) -> None:
    broken: dict[str, Any] = {"view": "token", "model": {"orders": [3, 1]}}
    with pytest.raises(EpigramError, match=r"trial of tfidf_svm on 100 rows failed: .*model.orders is \[3, 1\]"):
        trials.run(TrialSpec(name="tfidf_svm", system=broken, rows=100), 120)


def test_samples_are_nested_and_keep_what_belongs_to_a_row(shop: Workshop) -> None:
    view = View.load(shop.root / "data/encoded/token")
    whole = view.split("train")
    few, more = (SampledView.of(view, rows, 5).split("train") for rows in (20, 60))
    assert len(few) == 20 and set(few.rows) < set(more.rows)
    place = {row: n for n, row in enumerate(whole.rows.tolist())}
    for n, row in enumerate(few.rows.tolist()):
        assert few.ids[np.array([n])].values.tolist() == whole.ids[np.array([place[row]])].values.tolist()
        assert few.labels[n] == whole.labels[place[row]]
    assert len(SampledView.of(view, 20, 5).split("dev")) == 5
    assert len(set(few.labels.tolist())) == len(LABELS)


def test_folds_are_held_out_one_after_another(tmp_path: Path) -> None:
    """Of 168 texts in four folds, two folds are held out; nothing was pretrained."""
    rows = "".join(line + "\n" for line in lines(one_label).splitlines() if '"dev"' not in line)
    found = prepared(Workshop(tmp_path / "shop"), rows, ["tfidf_svm"], folds=4)
    with closing(Trials(found.root, tmp_path / "kept")) as trials:
        whole, few = (trials.run(TrialSpec(name="tfidf_svm", system=SPEC.system, rows=n), 120) for n in (10_000, 60))
    assert whole is not None and few is not None
    assert (whole.score, whole.rows, few.rows, few.held_out) == (1.0, 126, 60, 42)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"score": 0.5, "loss": 1.0, "rows": 3, "held_out": 1, "seconds": 2.0, "ms_per_text": 0.1}'
    )
    expected = TrialResult(score=0.5, loss=1.0, rows=3, held_out=1, seconds=2.0, ms_per_text=0.1)
    assert TrialResult.read(tmp_path / "a.json") == expected
