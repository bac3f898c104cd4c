"""Corrupt a file of every format that epigram reads; check that each is read or rejected with one clear line.

    python -m tests.support.formats --seconds 300 --seed 0
    python -m tests.support.formats --only csv --case 17

The same seed corrupts the same files in the same way.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType

import epigram
from epigram.core.errors import EpigramError
from tests.support.model_seeds import of_graphs, of_models, of_stages, of_tokenizers, of_vectors
from tests.support.result_seeds import of_pretrained, of_results
from tests.support.seeds import Format, of_archives, of_corpora, of_settings

PACKAGE = Path(epigram.__file__).parent
LIMIT = 20.0  # maximum seconds to read one small file
MEMORY = 4 << 30  # maximum bytes that a read may allocate in addition to the memory of the process
MAKERS: list[Callable[[Path], list[Format]]] = [
    of_corpora,
    of_archives,
    of_settings,
    of_tokenizers,
    of_vectors,
    of_stages,
    of_models,
    of_results,
    of_pretrained,
]


class TooSlowError(BaseException):
    """Raised if a read takes too long; a BaseException, so that `except Exception` in a reader does not catch it."""


@dataclass
class Report:
    """Results of the cases."""

    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[str]] = field(default_factory=dict)  # unexpected error → its cases

    @property
    def cases(self) -> int:
        """Return the number of files that were corrupted and read."""
        return self.read.total() + self.refused.total() + sum(map(len, self.findings.values()))


def build(root: Path) -> list[Format]:
    """Write a valid file of every format below `root`; read each once, because an invalid seed file tests nothing."""
    formats = [made for make in MAKERS for made in make(root)]
    for each in formats:
        each.read(each.folder)
    return formats


def run(formats: Sequence[Format], *, cases: Iterator[int] | range, seed: int, seconds: float = 1e9) -> Report:
    """Corrupt each of `formats` once for each of `cases` until the time is over."""
    report, end = Report(), time.monotonic() + seconds
    with limited():
        for number in cases:
            for each in formats:
                if time.monotonic() > end:
                    return report
                one(each, number, seed, report)
    return report


def one(target: Format, number: int, seed: int, report: Report) -> None:
    """Run one case: corrupt the file, read it, restore the valid file."""
    valid = {path: path.read_bytes() for path in target.folder.iterdir() if path.is_file()}
    random = Random(f"{seed} {target.name} {number}")
    target.path.write_bytes(random.choice(target.mutations)(valid[target.path], random))
    try:
        if target.renew is not None:
            target.renew(target.folder)
        with within(LIMIT):
            target.read(target.folder)
    except EpigramError as error:
        if fault := unclear(error, target):
            report.findings.setdefault(fault, []).append(f"{target.name} --case {number}")
        else:
            report.refused[target.name] += 1
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a Rust library is not an Exception
        report.findings.setdefault(described(error), []).append(f"{target.name} --case {number}")
    else:
        report.read[target.name] += 1
    finally:
        for path, content in valid.items():
            path.write_bytes(content)


def unclear(error: EpigramError, target: Format) -> str:
    """Return what is wrong with a message, or ""; its first line must name the file."""
    first = str(error).partition("\n")[0]
    named = any(name in first for name in (target.path.name, str(target.folder), "toy"))
    if named and first.isprintable() and len(first) < 1_000:
        return ""
    return f"unclear message of {type(error).__name__}: {first[:200]!r}"


def described(error: BaseException) -> str:
    """Return the error and the function of epigram that raised it."""
    places = [
        place for place in traceback.extract_tb(error.__traceback__) if Path(place.filename).is_relative_to(PACKAGE)
    ]
    where = f"{Path(places[-1].filename).name}:{places[-1].name}" if places else "outside"
    return f"{type(error).__name__} in {where}: {str(error)[:160]!r}"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooSlowError after this many seconds."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def limited() -> Iterator[None]:
    """Limit the memory, so that a file with a wrong size field cannot use all of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> int:
    """Run until the time is over and print the table; return 1 if an unexpected error occurred."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats whose name holds this")
    parser.add_argument("--case", type=int, help="this case alone, its error in full")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        formats = [each for each in [*build(root), *of_graphs(root)] if given.only in each.name]
        if given.case is not None:
            return again(formats, given.case, given.seed)
        report = run(formats, cases=iter(count()), seed=given.seed, seconds=given.seconds)  # type: ignore[arg-type]
    finally:
        shutil.rmtree(root)
    for each in formats:
        print(f"{each.name:40} read {report.read[each.name]:6,}  refused {report.refused[each.name]:6,}")
    for what, cases in sorted(report.findings.items(), key=lambda found: -len(found[1])):
        print(f"{len(cases):5,} × {what}\n        {'; '.join(cases[:3])}")
    print(f"{report.cases:,} cases, {len(formats)} formats, {len(report.findings)} findings")
    return bool(report.findings)


def again(formats: Sequence[Format], number: int, seed: int) -> int:
    """Run one case again and print its traceback."""
    for each in formats:
        random = Random(f"{seed} {each.name} {number}")
        broken = random.choice(each.mutations)(each.path.read_bytes(), random)
        print(each.name, len(broken), repr(broken[:600]))
        each.path.write_bytes(broken)
        if each.renew is not None:
            each.renew(each.folder)
        try:
            each.read(each.folder)
        except BaseException:
            traceback.print_exc()
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
