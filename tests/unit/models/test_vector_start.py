"""Tests of pretrained vectors as initial embeddings."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from epigram.core.errors import DataError
from epigram.models.recipe import reduce_width, set_pretrained_vectors


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
