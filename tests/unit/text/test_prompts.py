"""Prompts: templates of the project and of the user, and names of labels in the language of the texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from epigram.core.config_types import validate_as
from epigram.core.errors import ParameterError
from epigram.data.sources.source import SOURCES, load_source
from epigram.text.dataset.encoded_dataset import View
from epigram.text.prompts.prompts import build_prompt, mask_counts
from epigram.text.settings import AugmentSettings, OwnTemplate, ViewSettings
from epigram.text.tokens.tokenizers import MASK, load, vocabulary_of
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
    assert build_prompt("auto", "zh", ["a", "b"])["prefix"] == "[UNK]" * 5 + "[MASK]" + "[UNK]" * 4 + "[MASK]:"
    english = "[UNK] " * 7 + "[MASK] " + "[UNK] " * 5 + "[MASK]: "
    assert build_prompt("auto", "en", ["a", "b"])["prefix"] == english


@pytest.mark.parametrize(("language", "rows"), [("zh", ZH), ("en", EN)])
def test_the_stage_writes_the_prompt_and_shows_it(tmp_path: Path, language: str, rows: dict) -> None:  # type: ignore[type-arg]
    validated(tmp_path / "validated", language, rows)
    write_prompt(AugmentSettings(template="complex"), tmp_path / "validated", tmp_path / "out")
    made = json.loads((tmp_path / "out" / "prompt.json").read_text(encoding="utf-8"))
    assert made["masks"] == 2
    preview = (tmp_path / "out" / "preview.txt").read_text(encoding="utf-8").splitlines()
    assert preview == [made["prefix"] + text for text, _ in rows["train"]]


FOLDER = Path(__file__).parents[3] / SOURCES
CHINESE = [source for path in sorted(FOLDER.glob("*.yaml")) if (source := load_source(path.stem, FOLDER)).labels
           and source.language == "zh" and not source.labels[0].isdecimal()]  # fmt: skip


def settings(text: str) -> AugmentSettings:
    """Return the settings that the section `augment` in YAML describes."""
    return validate_as(AugmentSettings, yaml.safe_load(text), "augment")


def augmented(folder: Path, section: AugmentSettings, rows: Any, language: str, names: list[str]) -> dict[str, Any]:
    """Run the stage on a corpus whose labels have these `names`, and return prompt.json with the preview."""
    validated(folder / "validated", language, rows)
    path = folder / "validated/corpus.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"label_names": names}))
    write_prompt(section, folder / "validated", folder / "out")
    preview = (folder / "out/preview.txt").read_text(encoding="utf-8").splitlines()
    return json.loads((folder / "out/prompt.json").read_text(encoding="utf-8")) | {"preview": preview}


def test_the_complex_template_of_cold_is_chinese() -> None:
    cold = load_source("cold", FOLDER)
    names = [cold.label_names[label] for label in cold.labels]
    wanted = "如果0代表不冒犯,1代表冒犯,下面这句话的标签是[MASK],所以标签不是[MASK]:"
    assert build_prompt("complex", "zh", names)["prefix"] == wanted


@pytest.mark.parametrize("source", CHINESE, ids=lambda source: source.name)
def test_every_chinese_source_names_its_labels_in_chinese(source: Any) -> None:
    assert list(source.label_names) and set(source.label_names) == set(source.labels)
    assert not any(name.isascii() for name in source.label_names.values())


def test_sentiment_labels_read_as_published_with_and_without_names() -> None:
    source = load_source("chnsenticorp", FOLDER)
    named = build_prompt("complex", "zh", [source.label_names[label] for label in source.labels])
    assert named == build_prompt("complex", "zh", source.labels)
    assert named["prefix"] == "如果0代表负面,1代表正面,下面这句话的情绪是[MASK]面,所以情绪不是[MASK]面:"


def test_the_stage_uses_the_names_of_the_labels_in_the_order_of_the_labels(tmp_path: Path) -> None:
    made = augmented(tmp_path, AugmentSettings(template="complex"), ZH, "zh", ["难吃", "好吃"])
    assert made["prefix"] == "如果0代表难吃,1代表好吃,下面这句话的标签是[MASK],所以标签不是[MASK]:"
    plain = augmented(tmp_path, AugmentSettings(template="complex"), ZH, "zh", [])
    assert plain["prefix"].startswith("如果0代表负面,1代表正面,")  # neg and pos, which have no names here


@pytest.mark.parametrize(
    ("text", "masks", "prefix", "suffix"),
    [
        ("情绪是[MASK]:", 1, "情绪是[MASK]:", ""),
        ("{text}这句话的情绪是[MASK]。", 1, "", "这句话的情绪是[MASK]。"),
        ("不是[MASK]:{text} 是[MASK]", 2, "不是[MASK]:", " 是[MASK]"),
    ],
)
def test_a_template_of_ones_own_is_split_at_the_text(text: str, masks: Any, prefix: str, suffix: str) -> None:
    template = OwnTemplate(text=text, masks=masks)
    made = build_prompt(template, "zh", ["a", "b"])
    assert made == {"language": "zh", "template": "own", "prefix": prefix, "suffix": suffix, "masks": masks}
    assert mask_counts(template) == (prefix.count("[MASK]"), suffix.count("[MASK]"))


def test_the_preview_shows_the_words_around_the_text(tmp_path: Path) -> None:
    own = settings('template: {text: "Review: {text} It was [MASK].", masks: 1}')
    made = augmented(tmp_path, own, EN, "en", [])
    assert made["preview"] == [f"Review: {text} It was [MASK]." for text, _ in EN["train"]]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('{text: "is [MASK]:", masks: 2}', "augment.template.text has 1 [MASK]; expected 2, the value of augment."),
        ('{text: "is <mask>:", masks: 1}', "augment.template.text has 0 [MASK]; expected 1, the value of"),
        (
            '{text: "{text} is {text} [MASK]", masks: 1}',
            "augment.template.text has 2 {text}; expected at most one",
        ),
        ('{text: "is\\n[MASK]", masks: 1}', "augment.template.text has a line break or another control character"),
        ('{text: "is [MASK]", masks: 3}', "augment.template.masks is 3; expected 1 or 2"),
        ('{text: "is [MASK]"}', "augment.template.masks is missing"),
        ('{text: "is [MASK]", mask: 1}', "augment.template.mask is not a setting: did you mean 'masks'?"),
        ("complx", "augment.template is 'complx'; expected 'plain', 'complex' or 'auto'"),
        ("[plain]", "augment.template is ['plain']; expected 'plain', 'complex' or 'auto'"),
    ],
)
def test_a_wrong_template_is_explained_in_one_line(section: str, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        mask_counts(settings(f"template: {section}").template)
    first, *more = str(raised.value).splitlines()
    assert first.startswith(f"params.yaml: {message}")
    assert not more or ("mask is not" in first and more == ["params.yaml: augment.template.masks is missing"])


def spelled(view: View, ids: list[int]) -> list[str]:
    vocabulary = vocabulary_of(load(view.tokenizer_json))
    return [vocabulary[index] for index in ids]


@pytest.mark.parametrize(
    ("tokenizer", "before", "after"), [("token", [], []), ("wordpiece", ["[CLS]"], ["[SEP]"])], ids=["token", "piece"]
)
def test_words_on_both_sides_are_in_the_vocabulary_and_texts_alone_are_truncated(
    encoded: Any, tokenizer: Any, before: list[str], after: list[str]
) -> None:
    own = OwnTemplate(text="她说{text}即[MASK]", masks=1)  # none of these characters is in the texts
    view = encoded(ZH, view=ViewSettings(tokenizer=tokenizer, prompt=True), template=own, max_length=3)
    assert spelled(view, view.prefix_ids) == [*before, "她", "说"]
    assert spelled(view, view.suffix_ids) == ["即", "[MASK]", *after]
    assert view.split("train").ids.lengths.tolist() == [3, 3, 3]


def test_the_words_after_the_text_take_positions_of_a_checkpoint(encoded: Any, tmp_path: Path) -> None:
    """The checkpoint has 10 positions; [CLS], [SEP] and a prompt of four tokens leave four."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "好"]), encoding="utf-8")
    (folder / "config.json").write_text('{"max_position_embeddings": 10}')
    own = OwnTemplate(text="好{text}好好[MASK]", masks=1)
    assert encoded(ZH, view=ViewSettings(checkpoint=str(folder), prompt=True), template=own).max_length == 4
    long = OwnTemplate(text="{text}" + "好" * 7 + "[MASK]", masks=1)
    with pytest.raises(ParameterError, match="the prompt fills all 10 positions of the model; use a shorter one"):
        encoded(ZH, view=ViewSettings(checkpoint=str(folder), prompt=True), template=long)
