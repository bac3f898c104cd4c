"""Empty database of Prefect for the servers that tests start: Prefect's migrations take seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

CREATE = "import asyncio; from prefect.server.database import provide_database_interface as of;"
CREATE += "asyncio.run(of().create_db())"


def add_database(home: Path) -> Path:
    """Copy an empty database into the folder PREFECT_HOME `home`, which is returned."""
    template = Path(tempfile.gettempdir()) / f"epigram-tests-{os.getuid()}" / f"prefect-{version('prefect')}"
    template.parent.mkdir(mode=0o700, exist_ok=True)
    with FileLock(f"{template}.lock"):
        if not (template / "prefect.db").exists():
            new = template.with_name(f"{template.name}-new")
            shutil.rmtree(new, ignore_errors=True)
            subprocess.run([sys.executable, "-c", CREATE], env={**os.environ, "PREFECT_HOME": str(new)}, check=True)
            new.rename(template)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template / "prefect.db", home / "prefect.db")
    return home
