"""Checks of the project in the current folder, and of the checkpoints that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from epigram.checkpoints.folders import awaits_download, verify_checkpoint
from epigram.checkpoints.hub import HUB_PREFIX
from epigram.core.errors import EpigramError
from epigram.core.settings import read_params
from epigram.data.sources.hub_models import describe_files, find_files
from epigram.runner.doctor.installation import CheckResult, problem
from epigram.runner.project.files import check_version, read, require_repository


def is_project() -> bool:
    """Return whether the current folder is a project."""
    return Path("dvc.yaml").is_file()


def project() -> Iterator[CheckResult]:
    """Check that the project is for the installed version, and in git and DVC."""
    if not is_project():
        yield CheckResult("project", "ok", "none in this folder; to create one, run: epigram init FOLDER")
        return
    for check in (check_version, require_repository):
        try:
            check(Path())
        except EpigramError as error:
            found, _, fix = str(error).partition("; ")
            yield problem("project", found, fix, type(error))
            return
    record = read(Path())
    yield CheckResult("project", "ok", f"for epigram {record.version}" if record else "the repository of epigram")


def hub_checkpoints() -> Iterator[CheckResult]:
    """Check the views' checkpoints of the Hugging Face hub: the downloaded files, or what the hub has for the rest."""
    views = read_params(Path("params.yaml")).get("views") if is_project() else None
    named = [view.get("checkpoint") for view in views.values() if isinstance(view, dict)] if views else []
    for checkpoint in sorted({name for name in named if isinstance(name, str) and name.startswith(HUB_PREFIX)}):
        try:
            if awaits_download(checkpoint):
                found = f"{checkpoint} is not downloaded yet ({describe_files(find_files(checkpoint))})"
            else:
                verify_checkpoint(checkpoint)
                found = f"{checkpoint} is downloaded and unchanged"
        except EpigramError as error:
            yield CheckResult("checkpoint", "problem", str(error), "", error.code)
        else:
            yield CheckResult("checkpoint", "ok", found)
