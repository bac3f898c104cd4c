"""Tests of model cost in FLOPs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from epigram.models import complexity
from epigram.models.complexity import batch_macs, flops, milliseconds
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES

FRAME = TextTemplate(
    language="en", max_length=64, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None, vocabulary=100
)
CONTEXT = DataSpec(vocabulary=100, classes=2, max_length=64)


@pytest.mark.parametrize("length", [1, 30])
def test_a_recurrent_layer_is_counted(length: int) -> None:
    recipe = RECIPES["att_blstm"].changed(encoder={"width": 8}, head={}, train={})
    recurrent = 2 * length * 2 * (4 * 8 * 8 + 4 * 8 * 8)  # two directions; input and state feed four gates
    scores = pooled = 2 * length * 8  # of the attention pool: states times a weight vector, then times each other
    model = recipe.build(CONTEXT)
    assert flops(model, length, FRAME) == recurrent + scores + pooled + 2 * 8 * 2
    weighted = recurrent + scores + 2 * 8 * 2
    assert batch_macs(model, length, FRAME) == pytest.approx(weighted / 2 * 6_400 / length)


@pytest.mark.parametrize("length", [7, 30])
@pytest.mark.parametrize("heads", [1, 2])
def test_both_products_of_attention_are_counted(length: int, heads: int) -> None:
    sizes = {"width": 8, "depth": 3, "heads": heads, "hidden": 16}
    model = RECIPES["transformer"].changed(encoder=sizes).build(CONTEXT)
    weighted = 3 * length * 2 * (4 * 8 * 8 + 2 * 8 * 16) + 2 * 8 * 2  # q, k, v, out, and the perceptron; the classes
    products = 3 * 2 * (2 * length * length * 8)  # scores, and their product with the values; for all heads together
    assert flops(model, length, FRAME) == weighted + products
    assert batch_macs(model, length, FRAME) == pytest.approx(weighted / 2 * 6_400 / length)


def test_chance_costs_nothing() -> None:
    model = RECIPES["random"].build(CONTEXT)
    assert flops(model, 10, FRAME) == batch_macs(model, 10, FRAME) == 0


@pytest.mark.parametrize(("characters", "count"), [([], 10 + 9), ([2, 3], 10 + 9 + 10 * (6 + 5))])
def test_a_linear_svm_reads_a_weight_for_each_class_and_n_gram(characters: list[int], count: int) -> None:
    """A text of ten tokens; a token of five characters is read between two marks."""
    settings = {"orders": [1, 2], "characters": characters}
    model = RECIPES["tfidf_svm"].changed(model=settings).build(replace(CONTEXT, characters=30))
    assert flops(model, 10, FRAME) == 2 * 2 * count


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [(0.5, 40), (0.01, 40), (2.0, 128), (100.0, 400)],  # 40 calls of 0.015625 s take 0.625 s, 128 take 2 s
)
def test_no_call_is_timed_after_the_time_but_the_least_number_of_calls(
    seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, called = count(step=0.015625), []
    monkeypatch.setattr(complexity.time, "perf_counter", lambda: next(clock))
    assert milliseconds(called.append, 400, warm=2, least=40, seconds=seconds) == 15.625
    assert called == [0, 1, *range(calls)]
