"""The page of a failed run: the reason, the exit code in words, what to do and the log, all of it escaped."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from epigram.process.outcome import Outcome
from epigram.runner.runs.failure_page import failure

STATES = {"gather": "Cached", "fit@bert": "Failed", "fit@mlp": "Failed", "judge": "NotReady", "publish": "Completed"}


def page(
    code: int = 65, summary: str = "2 rows have no text", log: str = "../../runs/task-run/7", **more: object
) -> str:
    failed = Outcome(stage="fit@bert", code=code, summary=summary, state="Failed", **more)  # type: ignore[arg-type]
    return failure("nightly_1", failed, STATES, log, Path("/repo/runs/nightly_1"))


def html(text: str) -> str:
    return MarkdownIt().render(text)


def test_the_page_of_a_failure() -> None:
    output = tuple(f"line {number}" for number in range(40))
    assert page(details=("row 3", "row 8"), output=output) == "\n\n".join(
        [
            "# nightly_1: fit\\@bert failed",
            "**2 rows have no text**",
            "    row 3\n    row 8",
            "Exit code 65: the data break a rule, or a file is damaged.",
            "## What to do\n\nCorrect the rows or the file that the message names. "
            "Then run it again: stages that have succeeded are not repeated.",
            "* Other stages that failed: fit\\@mlp\n* Stages that did not run, because an earlier one failed: judge",
            "## Log\n\n[Log of the stage](../../runs/task-run/7)",
            "\n".join(f"    line {number}" for number in range(25, 40)),
            "Files of the run:",
            "    /repo/runs/nightly_1\n",
        ]
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (69, "Exit code 69: a source does not respond."),
        (75, "A training resumes from its checkpoint."),
        (137, "lower `train.batch_size`"),
        (139, "Exit code 139: the process crashed."),
        (3, "Exit code 3: the command failed."),
    ],
)
def test_an_exit_code_is_said_in_words(code: int, said: str) -> None:
    assert said in page(code)


def test_a_page_without_a_log_and_without_lines_has_no_empty_parts() -> None:
    assert "## Log" not in page(log="") and "\n\n\n" not in page(log="")


def test_nothing_of_a_stage_becomes_a_link_an_image_or_html() -> None:
    evil = "<img src=x> ![a](http://evil.example/a) [b](http://evil.example) `c` **d**"
    lines = (evil, "", "# a heading", "</code></pre><script>", "```", "a\u2028# b", "a\n# c")
    shown = html(page(summary=evil, details=lines, output=lines))
    assert shown.count("<a ") == 1 and '<a href="../../runs/task-run/7">Log of the stage</a>' in shown
    assert "<img" not in shown and "<script" not in shown and shown.count("<h1>") == 1 and shown.count("<h2>") == 2
    assert shown.count("<pre>") == 3 and shown.count("&lt;img src=x&gt;") == 3
