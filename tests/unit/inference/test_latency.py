"""Tests of the time from one text to its label."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from epigram.inference.predictors import measure
from epigram.inference.predictors.measure import milliseconds_per_text
from epigram.inference.predictors.predictor import Predictor
from epigram.recipes.registry import RECIPES
from epigram.text.tokens.encoding import TextEncoder
from epigram.training.config import configure
from epigram.training.distributed.resources import resolve_threads
from tests.support.text_samples import EN
from tests.support.trained import train_seed

WARM = 5  # texts that are predicted before the time is measured


class Recorder:
    """Predictor that takes 1 ms, or 50 ms for `slow`, and records texts and threads."""

    def __init__(self) -> None:
        self.seen, self.threads = list[list[str]](), set[int]()

    def predict(self, texts: list[str]) -> None:
        self.seen.append(texts)
        self.threads.add(torch.get_num_threads())
        time.sleep(0.05 if texts == ["slow"] else 0.001)


def test_texts_are_predicted_one_at_a_time_and_the_median_counts() -> None:
    recorder, texts = Recorder(), ["0", "slow", "2", "3", "4", "5", "6", "7", "8"]
    assert 1.0 <= milliseconds_per_text(recorder, texts, 9) < 20.0
    assert recorder.seen[WARM:] == [[text] for text in texts]


def test_a_part_of_the_texts_is_spread_over_all() -> None:
    recorder = Recorder()
    milliseconds_per_text(recorder, [str(number) for number in range(9)], 3)
    assert recorder.seen[3:] == [["0"], ["4"], ["8"]]


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 2), (64, 2)])
@pytest.mark.parametrize("before", [1, 3])
def test_at_most_two_threads_predict_and_the_others_come_back(
    cores: int, threads: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "count_processors", lambda: cores)
    at_first = torch.get_num_threads()
    torch.set_num_threads(before)
    try:
        recorder = Recorder()
        milliseconds_per_text(recorder, ["a"], 1)
        assert recorder.threads == {threads}
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(at_first)


def test_the_tokenization_counts(tmp_path: Path, encoded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RECIPES["mlp"].changed(train={"epochs": 1})
    config = resolve_threads(configure("mlp", recipe), recipe, None)
    train_seed("mlp", recipe, config, encoded(EN, language="en"), None, 0, tmp_path / "model")
    encode = TextEncoder.encode

    def slow(self: TextEncoder, *arguments: Any) -> Any:
        time.sleep(0.05)
        return encode(self, *arguments)

    monkeypatch.setattr(TextEncoder, "encode", slow)
    assert milliseconds_per_text(Predictor(tmp_path / "model", device="cpu"), ["good film", "plot"], 2) >= 50.0
