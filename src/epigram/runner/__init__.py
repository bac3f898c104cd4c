"""Prefect tasks that the flows consist of.

Prefect reads its settings from the environment when it is imported, so this module sets their defaults first.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

DEFAULTS = {
    # A separate database: another version of Prefect on this machine cannot break it.
    "PREFECT_HOME": str(Path.cwd() / ".epigram" / "prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",  # it loads its settings from another machine
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # With Prefect's default values, the task run recorder stalls for 2 s between flows on SQLite.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1.0",
    # In seconds: frequent enough to detect a dead run within 90 s.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # With Prefect's default of 5, a run waits four minutes for a server that is gone.
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    # The live table uses the terminal; the Prefect log contains all lines.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}

for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)

# On import, Prefect creates its folder but not the parent folder .epigram, and warns; the server creates both later.
warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")


def _bypass_proxy(hosts: tuple[str, ...]) -> None:
    """Add `hosts` to no_proxy: the Prefect server of a run listens on this machine."""
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    value = ",".join(dict.fromkeys([*names, *hosts]))
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = value


_bypass_proxy(("127.0.0.1", "localhost", "::1"))
