"""Lines that a fit prints about its time."""

from __future__ import annotations

import re

import pytest

import epigram
from epigram.fitting import estimates

TEXTS, LABELS = [f"{word} {number}" for number in range(30) for word in ("soup", "bed")], ["food", "room"] * 30


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pretrained encoder is installed."""
    monkeypatch.setattr(estimates, "installed_encoder", lambda language: None)


def test_if_no_search_fits_the_svm_is_said_to_be_trained_with_given_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(estimates.Estimates, "fitting", lambda self, candidate: None)
    epigram.fit(TEXTS, LABELS, budget="30s")
    printed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tfidf_svm: ")]
    search, trained, score = printed
    assert re.fullmatch(r"tfidf_svm: the search for its settings needs about \d+ s, and \d+ s are left", search)
    assert trained.startswith("tfidf_svm: trained with given settings, ") and score.startswith("tfidf_svm: accuracy ")


def test_a_fit_over_its_budget_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(estimates.Estimates, "fitting", lambda self, candidate: candidate)
    epigram.fit(TEXTS, LABELS, budget="0.1s")
    assert capsys.readouterr().err.splitlines()[-1].startswith("note: this took ")
