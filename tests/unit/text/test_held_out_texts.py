"""Tests of the keys of texts that pretraining leaves out: equal texts have equal keys, and damage is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epigram.core.errors import DataError
from epigram.text.unlabelled import read_keys, text_key, write_keys


def test_texts_are_equal_regardless_of_the_whitespace_around_them(tmp_path: Path) -> None:
    write_keys(tmp_path, [["\u3000the end \n", "好"], ["the end"], []])
    assert read_keys(tmp_path) == {text_key("the end"), text_key(" 好")}
    assert text_key("The end") not in read_keys(tmp_path)
    write_keys(tmp_path, [])
    assert read_keys(tmp_path) == set()


@pytest.mark.parametrize("keys", [np.zeros(3, np.int64), np.zeros((3, 1), np.uint64)], ids=["signed", "matrix"])
def test_an_array_that_is_no_list_of_keys_is_refused(keys: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "held_out.npy", keys)
    with pytest.raises(DataError, match=r"held_out\.npy contains .*; expected uint64 \(K,\): run dvc repro"):
        read_keys(tmp_path)
