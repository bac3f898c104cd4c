"""Checks of the project in the current folder, its locks, and the addresses that it uses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from epigram.checkpoints.folders import awaits_download, verify_checkpoint
from epigram.checkpoints.hub import HUB_PREFIX
from epigram.core.config_types import is_http_url
from epigram.core.errors import EpigramError, ParameterError, SourceUnavailableError
from epigram.core.settings import read_params
from epigram.data.sources.access import redact_address
from epigram.data.sources.fetch import MIRROR
from epigram.data.sources.hub_models import describe_files, find_files
from epigram.runner.doctor.installation import CheckResult, problem
from epigram.runner.project.files import check_version, read, require_repository
from epigram.runner.service import server, service_lock

STALE_AFTER = 600.0  # seconds; no git command of a run holds its lock that long
TIMEOUT = 5.0  # seconds


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


def locks() -> Iterator[CheckResult]:
    """Check for locks of the index, of refs and of worktrees that a killed git left; others end with their process."""
    stale = [
        lock
        for pattern in ("*.lock", "worktrees/*/*.lock", "refs/**/*.lock")
        for lock in Path(".git").glob(pattern)
        if time.time() - lock.stat().st_mtime > STALE_AFTER
    ]
    for lock in stale:
        yield problem("locks", f"{lock} is older than 10 minutes", f"if no git command runs: rm {lock}", ParameterError)
    if not stale:
        yield CheckResult("locks", "ok", "none is stale")


def data_mirror() -> Iterator[CheckResult]:
    """Check that the folder or the address of EPIGRAM_MIRROR can be reached."""
    import httpx

    mirror = os.environ.get(MIRROR)
    if not mirror:
        yield CheckResult("mirror", "ok", f"{MIRROR} is not set; data sets are downloaded from their own addresses")
        return
    shown = redact_address(mirror)
    if not is_http_url(mirror):
        if Path(mirror).is_dir():
            yield CheckResult("mirror", "ok", shown)
        else:
            fix = f"set {MIRROR} to a folder or an http address, or unset it"
            yield problem("mirror", f"{MIRROR}={shown} is not a folder", fix, ParameterError)
        return
    try:
        httpx.head(mirror, timeout=TIMEOUT, follow_redirects=True)
    except httpx.HTTPError as error:
        fix = f"check the network, or unset {MIRROR}"
        yield problem("mirror", f"{shown} does not respond ({type(error).__name__})", fix, SourceUnavailableError)
    else:
        yield CheckResult("mirror", "ok", f"{shown} responds")


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


def prefect_server() -> Iterator[CheckResult]:
    """Check the Prefect server that a run would use."""
    address = os.environ.get(server.API_URL)
    service = None if address else service_lock.holder()
    if not address and service is None:
        yield CheckResult("server", "ok", "none runs; a run starts its own")
        return
    url = address.removesuffix("/api") if address else service.url if service else ""
    if server.is_healthy(url):
        yield CheckResult("server", "ok", f"{redact_address(url)} responds")
    else:
        fix = f"start it, or unset {server.API_URL}" if address else "run: epigram stop"
        found = f"the Prefect server at {redact_address(url)} does not respond"
        yield problem("server", found, fix, SourceUnavailableError)
