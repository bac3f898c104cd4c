"""Tests of supervised commands: exit codes, signals, and the end of a command with its supervisor or its parent."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from epigram.runner import child_process
from tests.support.processes import alive, until


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 65", 65), ("kill -9 $$", 137)])
def test_a_command_ends_with_its_exit_code(command: str, code: int) -> None:
    assert child_process.start(["sh", "-c", command]).wait(60) == code


def signals(mask: str) -> set[int]:
    """Return the signals of a mask in /proc, without those that the C library keeps for itself (32 and 33)."""
    return {number for number in signal.valid_signals() if int(mask, 16) >> number - 1 & 1}


@pytest.mark.skipif(sys.platform != "linux", reason="requires /proc of Linux")
def test_a_command_ignores_no_signal_but_those_of_a_terminal_in_the_background_and_has_no_input() -> None:
    """`nohup` lets a command ignore a hangup, and `&` in a script lets it ignore Ctrl-\\; Ctrl-C stops it anyway."""
    command = ["sh", "-c", "grep -E '^Sig(Ign|Blk)' /proc/self/status; cat"]
    child = child_process.start(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    inherited = {each for each in (signal.SIGHUP, signal.SIGQUIT) if signal.getsignal(each) == signal.SIG_IGN}
    assert {line.split()[0]: signals(line.split()[1]) for line in child.stdout} == {
        "SigBlk:": set(),
        "SigIgn:": inherited,
    }
    assert child.wait(60) == 0


def test_a_command_that_is_stopped_at_once_prints_nothing() -> None:
    for _ in range(5):
        child = child_process.start(["sleep", "600"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = child.communicate(timeout=60)  # closes the pipe, which stops the command
        assert (child.returncode, said) == (128 + signal.SIGINT, "")


def kill_supervisor(child: subprocess.Popen[str]) -> None:
    child.kill()


def close_pipe(child: subprocess.Popen[str]) -> None:
    child_process.terminate(child)


@pytest.mark.parametrize(
    ("end", "code"), [(subprocess.Popen.terminate, 143), (kill_supervisor, -9), (close_pipe, 128 + signal.SIGINT)]
)
def test_a_command_ends_with_its_supervisor(end: Callable[[subprocess.Popen[str]], None], code: int) -> None:
    child = child_process.start(["sh", "-c", "echo $$; exec sleep 600"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    command = int(child.stdout.readline())
    end(child)
    assert child.wait(60) == code
    until(lambda: not alive(command), 10)


def test_children_that_end_meanwhile_do_not_end_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of a child forgets it as soon as it has ended, while `stop` terminates the others."""
    pool, ended = child_process.ProcessPool(), list[Any]()
    children: list[Any] = [object() for _ in range(3)]
    for child in children:
        pool.start(lambda child=child: child)  # type: ignore[misc]

    def terminate(child: Any) -> None:
        ended.append(child)
        thread = threading.Thread(target=pool.discard, args=(child,), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), "a child cannot be forgotten during the stop"

    monkeypatch.setattr(child_process, "terminate", terminate)
    pool.stop()
    assert len(ended) == 3 and all(child in ended for child in children)
    assert pool.start(lambda: children[0]) is None and not pool._children


def test_a_child_is_not_forgotten_while_another_starts() -> None:
    pool = child_process.ProcessPool()
    first, second, threads = object(), object(), list[threading.Thread]()
    pool.start(lambda: first)  # type: ignore[arg-type, return-value]

    def launch() -> Any:
        threads.append(threading.Thread(target=pool.discard, args=(first,), daemon=True))
        threads[0].start()
        threads[0].join(0.2)
        assert threads[0].is_alive()
        return second

    pool.start(launch)
    threads[0].join(10)
    assert pool._children == {second}
