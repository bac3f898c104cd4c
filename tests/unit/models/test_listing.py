"""The listing of systems, model cost in FLOPs, the random baseline, and pretrained vectors as initial embeddings."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from epigram.cli.app import app
from epigram.core.arrays import Ragged
from epigram.core.errors import DataError
from epigram.models import complexity
from epigram.models.batches import TextBatches
from epigram.models.classifier import count_parameters
from epigram.models.complexity import batch_macs, flops, milliseconds
from epigram.models.random_baseline import RandomBaseline, RandomBaselineConfig
from epigram.models.recipe import Recipe, reduce_width, set_pretrained_vectors
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec, Tokens
from epigram.recipes.listing import REFERENCE, ListedSystem, compact_number, list_systems
from epigram.recipes.registry import RECIPES
from epigram.training.fitters.random_baseline import fit


@pytest.fixture(scope="module")
def rows() -> dict[str, ListedSystem]:
    return {row.system: row for row in list_systems()}


def test_every_system_has_a_row_and_can_do_something(rows: dict[str, ListedSystem]) -> None:
    assert list(rows) == list(RECIPES)
    assert len(rows) >= 30
    assert all(row.tasks for row in rows.values())


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("textcnn", ("single", "multi")),
        ("bert_pta", ("single",)),  # a prompt predicts one label
        ("bert_tagger", ("tokens",)),
        ("random", ("single", "multi", "tokens")),
        ("mhal_joint", ("tokens",)),
    ],
)
def test_the_tasks_are_those_that_the_system_does_not_refuse(
    rows: dict[str, ListedSystem], name: str, tasks: tuple[str, ...]
) -> None:
    assert rows[name].tasks == tasks


@pytest.mark.parametrize("name", ["textcnn", "bert", "dmsp", "cnle"])
def test_parameters_are_counted_for_the_sizes_that_the_caption_names(rows: dict[str, ListedSystem], name: str) -> None:
    context = DataSpec(vocabulary=5_000, classes=2, max_length=128)
    assert rows[name].parameters == count_parameters(RECIPES[name].build(context))
    assert (REFERENCE.vocabulary, REFERENCE.classes, REFERENCE.max_length) == (5_000, 2, 128)


def test_a_new_recipe_appears_by_being_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(name="mine", about="it", paper="me", view="token", encoder={"kind": "embedding", "width": 8})
    monkeypatch.setitem(RECIPES, "mine", recipe)
    *_, last = list_systems()
    assert last == ListedSystem(
        system="mine", tasks=("single", "multi"), view="token", parameters=5_000 * 8 + 2 * 8 + 2, paper="me", about="it"
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [(None, "depends on data"), (0, "0"), (12, "12"), (460_802, "460.8 k"), (1_186_818, "1.2 M"), (999_999, "1.0 M")],
)
def test_numbers_are_short(number: int | None, said: str) -> None:
    assert compact_number(number) == said


def test_the_command_says_the_same_to_a_reader_and_to_a_program(
    rows: dict[str, ListedSystem], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*options: str) -> str:
        app(["systems", *options])
        return capsys.readouterr().out

    monkeypatch.setattr("epigram.recipes.listing.list_systems", rows.values)
    said: list[dict[str, Any]] = json.loads(shown("--json"))
    assert said == [{**vars(row), "tasks": list(row.tasks)} for row in rows.values()]
    table = shown()
    line = next(line for line in table.splitlines() if line.split()[:1] == ["textcnn"])
    assert "single multi" in line and "937.2 k" in line and "Kim (2014)" in line


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


TEXTS = 20_000
FREQUENCY = torch.tensor([0.6, 0.3, 0.1, 0.0])


def model_of(seed: int = 0, *, multi: bool = False) -> RandomBaseline:
    model = RandomBaselineConfig().build(DataSpec(vocabulary=5_000, classes=4, max_length=8, multi=multi))
    model.install(FREQUENCY, seed)
    return model


def texts() -> Tokens:
    ids = torch.randint(5_000, (TEXTS, 4), generator=torch.Generator().manual_seed(0))
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool))


def test_answers_come_as_often_as_the_labels() -> None:
    shares = model_of()(texts()).logits.argmax(1).bincount(minlength=4) / TEXTS
    np.testing.assert_allclose(shares, FREQUENCY, atol=0.02)
    assert shares[3] == 0


def test_each_of_several_labels_comes_as_often_as_it_does() -> None:
    said = (model_of(multi=True)(texts()).logits > 0).double()
    np.testing.assert_allclose(said.mean(0), FREQUENCY, atol=0.02)
    correlation = np.corrcoef(said[:, :3].T.numpy())[np.triu_indices(3, 1)]
    np.testing.assert_allclose(correlation, 0.0, atol=0.03)


def test_the_same_text_gets_the_same_answer_and_the_order_of_words_counts() -> None:
    tokens = Tokens(torch.tensor([[7, 8, 9], [7, 8, 9], [9, 8, 7]]), torch.ones(3, 3, dtype=torch.bool))
    first, again, turned = model_of()(tokens).logits
    assert torch.equal(first, again) and not torch.equal(first, turned)


def test_another_seed_draws_by_itself() -> None:
    first, second = (model_of(seed)(texts()).logits.argmax(1) for seed in (0, 1))
    agree = float((first == second).double().mean())
    assert abs(agree - float((FREQUENCY**2).sum())) < 0.02


def test_token_labels_are_all_as_likely_and_a_hash_of_seed_text_and_place() -> None:
    context = DataSpec(vocabulary=5_000, classes=4, max_length=8, token_labels=("O", "A", "B"))
    first, second = (RandomBaselineConfig().build(context) for _ in range(2))
    for model, seed in ((first, 0), (second, 1)):
        model.install(FREQUENCY, seed)
    tokens = first(texts()).tokens.argmax(-1)
    np.testing.assert_allclose(tokens.flatten().bincount(minlength=3) / tokens.numel(), 1 / 3, atol=0.01)
    same_place = tokens[:, 0] == tokens[:, 1]
    assert abs(float(same_place.double().mean()) - 1 / 3) < 0.02
    assert abs(float((tokens == second(texts()).tokens.argmax(-1)).double().mean()) - 1 / 3) < 0.01
    short = Tokens(texts().ids[:1], texts().valid[:1])
    padded = Tokens(torch.nn.functional.pad(short.ids, (0, 3)), torch.nn.functional.pad(short.valid, (0, 3)))
    assert torch.equal(first(short).tokens, first(padded).tokens[:, :4])


def test_without_token_labels_no_token_is_labelled() -> None:
    assert model_of()(texts()).tokens is None


def test_of_several_labels_each_is_counted_as_a_share_of_the_texts() -> None:
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
    frame = {"prefix": [], "suffix": [], "max_length": 4, "pad_id": 0, "unk_id": 1}
    train = TextBatches(Ragged(np.arange(2, 6), np.arange(5)), labels=labels, **frame)  # type: ignore[arg-type]
    model = RandomBaselineConfig().build(DataSpec(vocabulary=9, classes=3, max_length=4, multi=True))
    fit(model, train, train, seed=0)
    assert model.frequency.tolist() == [0.75, 0.5, 0.25]


def table(width: int) -> nn.Embedding:
    torch.manual_seed(0)
    embedding = nn.Embedding(50, width)
    nn.init.normal_(embedding.weight, std=0.1)
    return embedding


def vectors(width: int) -> torch.Tensor:
    found = torch.randn(50, width, generator=torch.Generator().manual_seed(1)) * torch.linspace(3, 0.1, width)
    found[::5] = torch.nan
    return found


@pytest.mark.parametrize("width", [8, 16, 24])
def test_entries_without_a_vector_stay_random_and_the_others_keep_their_angles(width: int) -> None:
    embedding, given = table(width), vectors(16)
    before = embedding.weight.detach().clone()
    set_pretrained_vectors(embedding, given)
    after, known = embedding.weight.detach(), ~given.isnan().any(1)
    assert torch.equal(after[~known], before[~known])
    placed = after[known][:, : min(width, 16)]
    assert placed.std() == pytest.approx(float(before.std()), rel=1e-3)
    expected = reduce_width(given[known], width)
    torch.testing.assert_close(
        torch.cosine_similarity(placed[:1], placed), torch.cosine_similarity(expected[:1], expected)
    )


def test_narrowing_keeps_more_of_the_dot_products_than_any_cut_of_columns() -> None:
    given = torch.randn(40, 12, generator=torch.Generator().manual_seed(2)) * torch.linspace(2, 1, 12)
    whole = given @ given.T
    few = reduce_width(given, 6)
    assert (few @ few.T - whole).norm() < (given[:, :6] @ given[:, :6].T - whole).norm()


@pytest.mark.parametrize("width", [8, 24])
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_vectors_without_spread_are_refused(width: int, value: float) -> None:
    given = torch.full((50, 16), value)
    given[::5] = torch.nan
    with pytest.raises(
        DataError, match=r"do not differ from each other; set the view's vectors to a file of trained vectors"
    ):
        set_pretrained_vectors(table(width), given)


def test_vectors_that_are_one_number_once_narrowed_are_refused() -> None:
    with pytest.raises(DataError, match="do not differ from each other"):
        set_pretrained_vectors(table(1), torch.tensor([[3.0, 4.0]]).expand(50, 2))
