"""Results of two git revisions, which DVC compares by the metrics and plots of dvc.yaml."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import vl_convert
import yaml

from tests.support.toy import Toy

ROOT = Path(__file__).parents[2]
DRAWN = ("metrics", "plots")


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


def difference(toy: Toy, what: str) -> dict[str, Any]:
    """Return what `dvc WHAT diff` says about the last commit and the working tree."""
    command = [sys.executable, "-m", "dvc", what, "diff", "--json", "HEAD"]
    ended = subprocess.run(command, cwd=toy.root, env=toy.env, capture_output=True, text=True, check=True)
    return dict(json.loads(ended.stdout))


def test_the_scores_that_differ_are_listed(compared: Toy) -> None:
    (changes,) = difference(compared, "metrics").values()
    assert list(changes) == ["systems.cnn.test_score"]
    values = changes["systems.cnn.test_score"]
    assert (values["old"], values["new"], values["diff"]) == pytest.approx((0.75, 0.71, -0.04))


def test_each_plot_has_the_values_of_both_revisions(compared: Toy) -> None:
    drawn = [plot for plots in difference(compared, "plots")["data"].values() for plot in plots]
    assert len(drawn) == 4 and all(plot["type"] == "vega" for plot in drawn)
    for plot in drawn:
        assert {name for label in plot["revisions"] for name in label.split(",")} == {"HEAD", "workspace"}
        assert vl_convert.vegalite_to_svg(plot["content"], allowed_base_urls=[]).count("<svg") == 1
