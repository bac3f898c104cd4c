"""Runners of the pipeline: DVC, Prefect, workspaces and the service.

Prefect's constant settings are in prefect.toml. Only what that file cannot hold is set in the environment, before
Prefect is imported; child processes inherit it, whatever their folder. Variables that the user has set are kept.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

HOME, PROFILES = "PREFECT_HOME", "PREFECT_PROFILES_PATH"
USER_PROFILES = Path("~/.prefect/profiles.toml")
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def set_environment() -> None:
    """Set the environment variables that Prefect reads.

    * PREFECT_HOME: a database for this folder, so that another version of Prefect on this machine cannot break it. The
      path is absolute, because runs of the service and workers of Ray may start in another folder.
    * PREFECT_PROFILES_PATH: the user's own profiles, which Prefect would otherwise search for in that home.
    * DO_NOT_TRACK: Prefect's client and DVC read it only from the environment.
    * PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL: an override of Prefect's logging configuration. It keeps log lines out
      of the terminal, which shows the live table; the log in the Prefect server contains all lines.
    * no_proxy: the Prefect server of a run listens on this machine.
    """
    profiles = USER_PROFILES.expanduser()
    if HOME not in os.environ and profiles.is_file():
        os.environ.setdefault(PROFILES, str(profiles))
    os.environ.setdefault(HOME, str(Path.cwd() / ".epigram" / "prefect"))
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(dict.fromkeys([*names, *LOCAL_HOSTS]))


set_environment()
# On import, Prefect creates its folder but not the parent folder .epigram, and warns; the server creates both later.
warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")
