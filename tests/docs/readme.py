"""The picture of the report and the example output in README.md, made from a run of the embedded Chinese corpus.

python -m tests.docs.readme runs/latest

docs/report.json has the hash of the report's templates when the picture was taken, and the printed prediction; a test
compares both with the templates and with README.md.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import epigram
from epigram.core.files import write_json, write_text

ROOT = Path(__file__).parents[2]
TEMPLATES, README, RECORD = ROOT / "src/epigram/report/templates", ROOT / "README.md", ROOT / "docs/report.json"
EXAMPLE = re.compile(r"(for example `)([^`]*)(`\.)")
COMMAND = re.compile(r'epigram predict runs/latest/model "([^"]*)"')
SIZE = {"width": 1200, "height": 905}


def templates_hash() -> str:
    """Return the SHA-256 of the report's templates."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(TEMPLATES.glob("*.html.j2")))).hexdigest()


def take_picture(page: Path, to: Path) -> None:
    """Write the first screen of the HTML `page` as a PNG file."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport=SIZE)
        tab.goto(page.resolve().as_uri())
        tab.screenshot(path=to)
        browser.close()


def main(run: Path) -> None:
    """Write the picture, its record and the example in README.md."""
    text = README.read_text(encoding="utf-8")
    example = COMMAND.search(text)
    assert example, "README.md has no command that predicts a text"
    found = epigram.load(run / "model").predict([example[1]])[0]
    printed = f"{found.label} {found.probability:.3f} {example[1]}"
    take_picture(run / "report.html", ROOT / "docs/report.png")
    write_json(RECORD, {"templates": templates_hash(), "prediction": printed})
    write_text(README, EXAMPLE.sub(lambda match: f"{match[1]}{printed}{match[3]}", text))
    print(json.dumps({"prediction": printed}, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
