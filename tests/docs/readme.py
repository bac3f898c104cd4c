"""The pictures of the report and of the server's page, and the example output in README.md.

python -m tests.docs.readme runs/latest

They are made from a run of the embedded Chinese corpus, in headless Chromium, with a Chinese font (for example of the
Debian package fonts-wqy-microhei). docs/report.json has the hashes of the templates when the pictures were taken, and
the printed prediction; a test compares them with the templates and README.md.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import epigram
from epigram.core.files import write_json, write_text
from tests.support.model_server import model_server

ROOT = Path(__file__).parents[2]
TEMPLATES = {
    "templates": "src/epigram/report/templates/*.html.j2",
    "server": "src/epigram/inference/server/templates/*",
}
README, RECORD = ROOT / "README.md", ROOT / "docs/report.json"
REPORT, TRY = ROOT / "docs/report.png", ROOT / "docs/images/try.png"
EXAMPLE = re.compile(r"(for example `)([^`]*)(`\.)")
COMMAND = re.compile(r'epigram predict runs/latest/model "([^"]*)"')


def hashes() -> dict[str, str]:
    """Return the SHA-256 of the templates of the report and of the server's page."""
    return {
        name: hashlib.sha256(b"".join(path.read_bytes() for path in sorted(ROOT.glob(files)))).hexdigest()
        for name, files in TEMPLATES.items()
    }


@contextmanager
def opened(address: str, width: int, height: int) -> Iterator[Any]:
    """Yield the page at `address` in headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": height})
        tab.goto(address)
        yield tab
        browser.close()


def take_report(page: Path) -> None:
    """Write the picture of a report's first screen."""
    with opened(page.resolve().as_uri(), 1200, 905) as tab:
        tab.screenshot(path=REPORT)


def take_server(model: Path, texts: list[str]) -> None:
    """Write the picture of the server's page after it has predicted `texts` and explained the first one."""
    with model_server(f"hotel={model}") as server, opened(server.url, 820, 640) as tab:
        tab.get_by_label("Texts, one per line").fill("\n".join(texts))
        tab.get_by_role("button", name="Predict").click()
        tab.get_by_role("button", name="Why?").first.click()
        tab.locator("article mark").first.wait_for()
        tab.screenshot(path=TRY)


def main(run: Path) -> None:
    """Write the pictures, their record and the example in README.md."""
    text = README.read_text(encoding="utf-8")
    example = COMMAND.search(text)
    assert example, "README.md has no command that predicts a text"
    found = epigram.load(run / "model").predict([example[1]])[0]
    printed = f"{found.label} {found.probability:.3f} {example[1]}"
    take_report(run / "report.html")
    take_server(run / "model", [example[1], "前台态度差，再也不来了"])
    write_json(RECORD, {**hashes(), "prediction": printed})
    write_text(README, EXAMPLE.sub(lambda match: f"{match[1]}{printed}{match[3]}", text))
    print(json.dumps({"prediction": printed}, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
