"""Results of two git revisions: DVC compares them, and `revision_diff` shows the difference offline."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.toy import Toy

ROOT = Path(__file__).parents[2]
DRAWN = ("metrics", "plots")
CHROMIUM = shutil.which("chromium")


def results(alpha: float) -> dict[str, str]:
    """Return the files that `compare` would write for two systems, one of them trained in epochs."""
    plots: dict[str, list[dict[str, Any]]] = {
        "scores": [
            {"system": name, "test": score, "low": score - 0.1, "high": score + 0.1}
            for name, score in (("svm", 0.8), ("cnn", 0.7 + alpha))
        ],
        "curves": [{"system": "cnn", "epoch": epoch, "dev": 0.5 + epoch * alpha, "loss": 1.0} for epoch in (1, 2, 3)],
        "confusion": [
            {"system": name, "gold": gold, "predicted": said, "rows": 1, "share": 0.5}
            for name in ("svm", "cnn")
            for gold in ("好<b>", "差")
            for said in ("好<b>", "差")
        ],
    }
    numbers = {"systems": {"svm": {"test_score": 0.8}, "cnn": {"test_score": 0.7 + alpha, "parameters_pruned": 12345}}}
    return {"metrics.json": json.dumps(numbers)} | {
        f"plots/{name}.json": json.dumps(rows) for name, rows in plots.items()
    }


@pytest.fixture
def compared(done: Toy) -> Toy:
    """Return a repository with results in its last commit and other results in its working tree."""
    pipeline = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    told = yaml.safe_dump({part: pipeline[part] for part in DRAWN}).replace("data/compared", "out/judge")
    with (done.root / "dvc.yaml").open("a") as file:
        file.write(told)
    shutil.copytree(ROOT / ".dvc" / "plots", done.root / ".dvc" / "plots")
    done.tell({"judge": {"files": results(0.05)}})
    done.shell("dvc", "repro", "--quiet", "--force", "--single-item", "judge")
    done.commit()
    done.tell({"judge": {"files": results(0.01)}})
    done.change("judge")
    done.shell("dvc", "repro", "--quiet", "--single-item", "judge")
    return done


def diff(toy: Toy, *revisions: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epigram.runner.workspace.revision_diff", *revisions]
    return subprocess.run(command, cwd=toy.root, env=toy.env, capture_output=True, text=True, check=False)


def test_the_page_says_what_differs_and_is_drawn_offline(compared: Toy, tmp_path: Path) -> None:
    ended = diff(compared, "HEAD")
    assert (ended.returncode, ended.stdout) == (0, "1 metrics and 1 parameters differ: runs/diff.html\n"), ended.stderr
    html = (compared.root / "runs" / "diff.html").read_text()
    for said in ("systems.cnn.test_score", '<td class="number">0.75</td>', "-0.04", "compare.alpha", "0.01"):
        assert said in html
    assert "systems.svm.test_score" not in html
    assert html.count("<svg") == 4
    assert html.count(">development score</text>") == html.count(">loss</text>") == 1
    assert "<b>" not in html
    assert not re.search(r"<script[^>]|<link|src=|@import", html)
    assert html.count("<script>") == 1
    assert not re.search(r"https?://", re.sub(r'xmlns(:\w+)?="[^"]*"', "", html))
    if not CHROMIUM:
        pytest.skip("requires chromium")
    look_at(compared.root / "runs" / "diff.html")


def test_a_revision_without_results_is_said(compared: Toy) -> None:
    for name, said in (("HEAD~1", "no results of HEAD~1 in"), ("nowhere", "no commit 'nowhere'")):
        ended = diff(compared, name)
        assert (ended.returncode, ended.stdout) == (66, "")
        assert ended.stderr.startswith("error: ") and said in ended.stderr
        assert not (compared.root / "runs").exists()


def look_at(page: Path) -> None:
    """Open the page in offline Chromium: it makes no other request and shows four charts with marks."""
    driver = pytest.importorskip("playwright.sync_api", reason="requires playwright")
    with driver.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_context(offline=True).new_page()
        asked: list[str] = []
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto(page.as_uri())
        boxes = [picture.bounding_box() for picture in opened.locator("svg.marks").all()]
        marks = opened.locator("svg .mark-symbol path, svg .mark-rect path, svg .mark-line path").count()
        browser.close()
    assert asked == [page.as_uri()]
    assert len(boxes) == 4 and all(box and box["width"] > 200 and box["height"] > 50 for box in boxes)
    assert marks > 20
