"""Program in the place of a tool of the accuracy grid; its behaviour is the first argument."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.accuracy_tools.task import finish, read_task


def main() -> None:
    """Answer, fail, answer too little, answer nothing, or go on with a child that holds memory."""
    how, *paths = sys.argv[1:]
    task = read_task()
    time.sleep(0.1)  # the recorded seconds have one decimal
    if how == "fail":
        sys.exit("first line\nno memory left\n")
    if how == "linger":
        child = subprocess.Popen([sys.executable, "-c", "held = b'x' * 200_000_000; import time; time.sleep(60)"])
        Path(paths[0]).write_text(str(child.pid))
        time.sleep(60)
    if how == "copy":  # what a tool can read
        seen = "".join(path.read_text(encoding="utf-8") for path in sorted(Path().rglob("*")))
        Path(paths[0]).write_text(f"{sorted(map(str, Path().rglob('*')))}\n{seen}{sys.argv}", encoding="utf-8")
    if how == "silent":
        return
    answers = [task.labels[0]] * (len(task.tests) - (how == "short"))
    finish(answers, fitted=task.terms.used, settings=f"{task.terms.language} {task.terms.seed}", packages=["numpy"])


if __name__ == "__main__":
    main()
