"""Record the executed lines of a process that a test starts; each tree contains a copy as sitecustomize.py."""

import os

if folder := os.environ.get("MUTATION_COVERAGE"):
    import atexit
    from typing import Any

    import coverage

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  no import before the measured code
    measured = coverage.Coverage(
        data_file=f"{folder}/data",
        data_suffix=True,
        context=os.environ.get("MUTATION_CONTEXT", ""),
        source=[f"{here}/src", f"{here}/tasks", f"{here}/flows"],
        config_file=False,
        messages=False,
    )
    measured.start()
    leave = os._exit

    def save() -> None:
        """Write the recorded lines."""
        measured.stop()
        measured.save()

    def exit_now(code: int) -> Any:
        """Write the recorded lines, then exit at once."""
        save()
        leave(code)

    atexit.register(save)
    os._exit = exit_now  # type: ignore[assignment]
