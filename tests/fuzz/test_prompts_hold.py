"""Properties of prompts (never truncated or forged), part-of-speech weights (in range) and tuned thresholds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from epigram.evaluation.tuning.thresholds import tuned_thresholds
from epigram.models.batches import TextBatches
from epigram.models.text_template import TextTemplate
from epigram.text.pos import pos_table
from epigram.text.prompts.prompts import build_prompt
from epigram.text.settings import PosTableSettings
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import SPECIALS, character_tokenizer, word_tokenizer, wordpiece_tokenizer
from epigram.text.tokens.vocabulary import prompt_ids
from tests.support.budget import cases
from tests.support.budget import texts as nasty

LABELS = st.lists(
    nasty.filter(str.strip) | st.sampled_from(["[MASK]", "正面", "neg", "Positive"]), min_size=1, max_size=5
)
TEMPLATES, LANGUAGES = st.sampled_from(["plain", "complex", "auto"]), st.sampled_from(["zh", "en"])
SHARES = st.floats(0, 1)


@cases(600)
@given(TEMPLATES, LANGUAGES, LABELS, st.sampled_from([character_tokenizer, word_tokenizer, wordpiece_tokenizer]))
def test_a_prompt_has_its_two_masks_whatever_the_labels(
    template: Any, language: Any, labels: list[str], make: Any
) -> None:
    made = build_prompt(template, language, labels)
    ids = prompt_ids(make([*SPECIALS, *"下面句子", "label"]), made["prefix"])
    assert ids.count(4) == made["masks"] == made["prefix"].count("[MASK]") == 2
    assert {0, 2, 3}.isdisjoint(ids)


@cases(600)
@given(
    st.lists(nasty, min_size=1, max_size=5),
    st.lists(st.integers(0, 9), max_size=6),
    st.lists(st.integers(0, 9), max_size=2),
    st.integers(1, 20),
)
def test_a_prompt_is_never_cut(texts: list[str], prefix: list[int], suffix: list[int], room: int) -> None:
    frame = TextTemplate(
        language="zh",
        max_length=len(prefix) + len(suffix) + room,
        prefix_ids=prefix,
        suffix_ids=suffix,
        pad_id=0,
        unk_id=1,
        mask_id=4,
        vocabulary=10,
    )
    encoded = TextEncoder(_characters()).encode(texts, 10**6)
    read = TextBatches.from_template(frame, encoded.ids).gather(np.arange(len(texts)))
    for row, own in enumerate(encoded.ids):
        ids = read.ids[row][read.valid[row]].tolist()
        assert ids == prefix + own[:room].tolist() + suffix
        assert not read.ids[row][~read.valid[row]].any()


@cache
def _characters() -> Any:
    return character_tokenizer([*SPECIALS, *"好差店a9"])


@cache
def _table() -> pl.DataFrame:
    return pos_table.build(PosTableSettings()).frame.gather_every(97)


@cases(550)
@given(
    st.lists(nasty | st.sampled_from(["好", "的", "##good", "Ġthe", "<s>", "[unused1]"]), max_size=6),
    LANGUAGES,
    SHARES,
    SHARES,
)
def test_weights_stay_in_their_range(words: list[str], language: Any, notional: float, function: float) -> None:
    table = pos_table.PosTable(_table(), PosTableSettings(notional=notional, function=function))
    found = pos_table.weights_for(words, table, language)
    assert found.shape == (len(words),)
    assert ((found >= 0) & (found <= 1)).all()
    rest = pos_table.PosTable(_table().clear(), table.settings)
    allowed = np.float32([1.0, notional, function])
    assert np.isin(pos_table.weights_for(words, rest, language), allowed).all()


@cases(250)
@given(
    st.lists(
        st.tuples(nasty, st.sampled_from(["n", "v", "uj", "NOUN", "DET", ""]), st.integers(0, 10**12)), max_size=8
    ),
    LANGUAGES,
)
def test_a_table_grows_and_no_row_changes(tagged: list[tuple[str, str, int]], language: Any) -> None:
    table = pos_table.PosTable(_table().head(40), PosTableSettings())
    frame = pl.DataFrame(tagged, schema={"entry": pl.String, "tag": pl.String, "frequency": pl.Int64}, orient="row")
    grown = pos_table.add_entries(table, frame, language).frame
    assert grown.head(40).equals(table.frame)
    assert (
        grown.select("entry", "language").is_unique().all()
        or not table.frame.select("entry", "language").is_unique().all()
    )
    assert grown["weight"].is_in([0.5, 1.0]).all()


@cases(550)
@given(st.data())
def test_tuned_thresholds_are_worth_it(data: st.DataObject) -> None:
    rows, classes = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 4))
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    probabilities = random.random((rows, classes)).round(data.draw(st.integers(0, 4))).astype(np.float32)
    gold = random.random((rows, classes)) < data.draw(SHARES)
    cuts = tuned_thresholds(gold, probabilities)
    assert cuts.shape == (classes,)
    assert np.isfinite(cuts).all()
    tried = [np.full(classes, cut) for cut in (0.5, 0.25, 0.75)]
    assert _micro_f1(gold, probabilities > cuts) >= max(_micro_f1(gold, probabilities > cut) for cut in tried) - 1e-9


def _micro_f1(gold: np.ndarray, said: np.ndarray) -> float:
    return float(2 * (gold & said).sum() / max(1, gold.sum() + said.sum()))
