"""Test of the contents of docs/development/log.md."""

from __future__ import annotations

import re

from tests.support.code_files import ROOT


def test_the_contents_list_the_headings_in_their_order() -> None:
    text = (ROOT / "docs/development/log.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#{2,3} (.+)$", text, re.MULTILINE)
    listed = re.findall(r"^ *\* \[([^]]+)\]\(#[a-z0-9_-]+\)$", text, re.MULTILINE)
    assert listed == headings[1:]  # without "Contents"
