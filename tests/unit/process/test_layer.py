"""No output of a stage depends on the package `process`: an edit of it runs no stage again."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def test_no_stage_depends_on_the_package_process() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    deps = {dep for stage in stages.values() for dep in stage.get("do", stage)["deps"]}
    assert deps and not {dep for dep in deps if dep in ("src/epigram", "src") or dep.startswith("src/epigram/process")}
