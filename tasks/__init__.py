"""What the flows are made of. Prefect reads the environment when it is imported: its settings stand here."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

DEFAULTS = {
    # A database of the project's own: another version of Prefect on this machine cannot break it.
    "PREFECT_HOME": str(Path.cwd() / ".pithy" / "prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",  # it asks another machine for its settings
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # With its own values the recorder of task runs stalls for 2 s between flows on SQLite.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1.0",
    # Often enough for a run without a sign of life to be found out in a minute and a half.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # With its own value of 5 a run waits four minutes for a server that is gone.
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    # The live view owns the terminal; the Prefect log keeps everything.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}

for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)

# Prefect makes its folder when it is imported, but not .pithy above it; the server makes both.
warnings.filterwarnings("ignore", message="Failed to create the Prefect home directory")


def _without_proxy(hosts: tuple[str, ...]) -> None:
    """Let requests to `hosts` bypass any proxy: the server of a run listens on this machine."""
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    value = ",".join(dict.fromkeys([*names, *hosts]))
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = value


_without_proxy(("127.0.0.1", "localhost", "::1"))
