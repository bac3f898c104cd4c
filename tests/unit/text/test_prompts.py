from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epigram.text.prompts.prompts import build_prompt
from epigram.text.settings import AugmentSettings
from epigram.text.tokens.tokenizers import MASK
from epigram.workflow.augment import write_prompt
from tests.support.text_samples import EN, ZH, validated

LABELS = st.lists(st.text(min_size=1, max_size=12) | st.sampled_from([MASK, "[UNK]", "pos"]), min_size=2, unique=True)


@given(st.sampled_from(["plain", "complex", "auto"]), st.sampled_from(["zh", "en"]), LABELS)
def test_every_prompt_has_two_masks(template: str, language: str, labels: list[str]) -> None:
    made = build_prompt(template, language, labels)  # type: ignore[arg-type]
    assert made["masks"] == made["prefix"].count(MASK) == 2


@given(st.sampled_from(["zh", "en"]), LABELS)
def test_the_complex_prompt_numbers_every_label(language: str, labels: list[str]) -> None:
    prefix = build_prompt("complex", language, labels)["prefix"]  # type: ignore[arg-type]
    verb = "代表" if language == "zh" else " is "
    assert all(f"{index}{verb}" in prefix for index in range(len(labels)))


def test_plain_prompts_read_as_published() -> None:
    assert build_prompt("plain", "zh", ["a", "b"])["prefix"] == "下面句子的标签是[MASK],所以标签不是[MASK]:"
    english = "The label of the following sentence is [MASK], so the label is not [MASK]: "
    assert build_prompt("plain", "en", ["a", "b"])["prefix"] == english


def test_the_complex_prompt_of_sentiment_reads_as_published() -> None:
    published = "如果0代表正面,1代表负面,下面这句话的情绪是[MASK]面,所以情绪不是[MASK]面:"
    assert build_prompt("complex", "zh", ["positive", "negative"])["prefix"] == published
    other = build_prompt("complex", "zh", ["财经", "体育", "游戏"])["prefix"]
    assert other == "如果0代表财经,1代表体育,2代表游戏,下面这句话的标签是[MASK],所以标签不是[MASK]:"


def test_the_complex_prompt_finds_sentiment_in_any_case_and_order() -> None:
    legend = "如果0代表负面,1代表正面,"
    assert build_prompt("complex", "zh", ["Negative", "POS"])["prefix"].startswith(legend)


@pytest.mark.parametrize("labels", [["positive", "neutral", "negative"], ["positive", "spam"]])
def test_labels_beyond_positive_and_negative_keep_their_names_in_the_prompt(labels: list[str]) -> None:
    legend = ",".join(f"{index}代表{label}" for index, label in enumerate(labels))
    published = f"如果{legend},下面这句话的标签是[MASK],所以标签不是[MASK]:"
    assert build_prompt("complex", "zh", labels)["prefix"] == published


def test_the_auto_prompt_hides_every_word() -> None:
    assert build_prompt("auto", "zh", ["a", "b"])["prefix"] == "[UNK]" * 5 + "[MASK]," + "[UNK]" * 4 + "[MASK]:"
    english = build_prompt("auto", "en", ["a", "b"])["prefix"]
    assert english.count("[UNK]") == 12
    assert not any(word.isalpha() for word in english.split())


@pytest.mark.parametrize(("language", "rows"), [("zh", ZH), ("en", EN)])
def test_the_stage_writes_the_prompt_and_shows_it(tmp_path: Path, language: str, rows: dict) -> None:  # type: ignore[type-arg]
    validated(tmp_path / "validated", language, rows)
    write_prompt(AugmentSettings(template="complex"), tmp_path / "validated", tmp_path / "out")
    made = json.loads((tmp_path / "out" / "prompt.json").read_text(encoding="utf-8"))
    assert made["masks"] == 2
    preview = (tmp_path / "out" / "preview.txt").read_text(encoding="utf-8").splitlines()
    assert preview == [made["prefix"] + text for text, _ in rows["train"]]
