"""Tests of garbage collection while libraries are imported."""

from __future__ import annotations

import gc

import pytest

from epigram.process.startup import no_collection


@pytest.fixture(autouse=True)
def unfrozen() -> object:
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_inside_and_what_was_made_is_not_searched_again() -> None:
    frozen = gc.get_freeze_count()
    with no_collection():
        assert not gc.isenabled()
        kept = [[] for _ in range(1_000)]
    assert gc.isenabled() and gc.get_freeze_count() >= frozen + len(kept)


def test_collection_goes_on_after_an_error() -> None:
    with pytest.raises(ImportError), no_collection():
        raise ImportError
    assert gc.isenabled()
