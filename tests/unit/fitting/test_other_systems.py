"""Tests that `fit` and predictions need nothing that Windows lacks: modules, calls and signals of Unix, and `fork`."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import epigram
from epigram.core.errors import TryAgainError
from epigram.core.files import exclusive_lock
from tests.support.linear_models import TRAIN, ensemble_of_svms

HIDDEN = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"):
    sys.modules[name] = None
CALLS = "fork forkpty killpg setsid getpgid sched_getaffinity sysconf geteuid getuid".split()
SIGNALS = "SIGCHLD SIGPIPE SIGBUS SIGTRAP SIGXFSZ SIGKILL SIGHUP siginterrupt pthread_sigmask sigwait".split()
for place, names in ((os, CALLS), (signal, SIGNALS)):
    for name in names:
        delattr(place, name)
"""
FIT = """
import epigram
from epigram.fitting import estimates
estimates.installed_encoder = lambda language: None  # whose embeddings take a minute
texts = [f"{word} {other}" for word in ("nice", "fine", "bad", "dull") for other in "abcdefghij"]
model = epigram.fit(texts, ["pos"] * 20 + ["neg"] * 20, budget="3s")
assert [each.label for each in model.predict(["nice a", "bad b"])] == ["pos", "neg"]
model.save(sys.argv[1])
"""
PREDICT = """
from epigram.cli import app
sys.argv = ["epigram", "predict", sys.argv[1], "nice a"]
app.app()
"""


def test_fit_and_predict_run_without_what_only_unix_has(tmp_path: Path) -> None:
    for program, said in ((FIT, ""), (PREDICT, "pos\t")):
        command = [sys.executable, "-c", HIDDEN + program, str(tmp_path / "model")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith(said)


def predicted(folder: Path) -> list[epigram.TextPrediction]:
    return epigram.load(folder).predict([text for text, _ in TRAIN["en"]])


def test_a_process_that_is_spawned_predicts_the_same(tmp_path: Path) -> None:
    folder = ensemble_of_svms(tmp_path)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(predicted, folder).result() == predicted(folder)


def test_a_lock_file_that_nobody_else_may_read_or_write_still_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError  # as Windows does for a locked file

    for name in ("read_text", "write_text"):
        monkeypatch.setattr(Path, name, refuse)
    first, second = (exclusive_lock(tmp_path / "a.lock", str) for _ in range(2))
    with first, pytest.raises(TryAgainError, match=r"^unknown$"), second:
        pass
