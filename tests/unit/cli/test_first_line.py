"""Commands that load for long print their first line before that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from epigram.cli.models import fit, serve
from epigram.fitting.progress import LiveLine
from epigram.fitting.search import Search
from epigram.fitting.steps import Steps, StepSettings
from epigram.fitting.stopwatch import Stopwatch


@pytest.mark.parametrize(
    ("command", "module", "line"),
    [
        (lambda: fit.main(Path("reviews.csv"), Path("hotel")), "epigram.fitting.fitted_model", "reading reviews.csv"),
        (lambda: serve.main(["hotel", "b=food"]), "epigram.inference.server.run", "loading hotel, b"),
    ],
)
def test_the_first_line_is_printed_before_the_slow_import(
    command: Callable[[], None],
    module: str,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # the import of the module fails
    with pytest.raises(ImportError, match=module):
        command()
    assert capsys.readouterr().err == f"{line}\n"


def test_the_live_line_says_what_a_search_does(tmp_path: Path) -> None:
    search = Search(Steps(tmp_path, StepSettings()), Stopwatch(60.0, 0.0, lambda: 10.0), print)
    assert str(LiveLine(search).__rich__()) == "checking the texts; 50 s left"
    search.trying = "tfidf_svm"
    assert str(LiveLine(search).__rich__()).startswith("training tfidf_svm; ")
