"""epigram repair: check and repair of DVC's files."""

from __future__ import annotations

from epigram.core.extras import require


def main() -> None:
    """Check all files of DVC in the current project, and remove the damaged ones.

    Example: epigram repair
    """
    require("epigram repair", "pipeline", "dvc")
    from epigram.runner.dvc.repair import main as repair

    repair()
