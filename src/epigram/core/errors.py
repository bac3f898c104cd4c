"""Errors that users can cause, with their exit codes (sysexits.h).

The first line of a message states what is wrong, where, and what to do; details follow on further lines. Codes 69 and
75 mean that a retry can succeed; all other codes are final.
"""

from __future__ import annotations

import re

RETRYABLE = frozenset({69, 75})

# Parts of out-of-memory messages: of allocators, the dynamic loader, oneDNN (whose "primitive descriptor" is instead a
# kernel that the processor lacks), C modules that cannot allocate an exception, threads, and the training code.
OUT_OF_MEMORY_MESSAGE = re.compile(
    r"allocate memory|bad_alloc|failed to map segment|could not create a primitive(?! descriptor)"
    r"|without exception set|without setting an exception|can't start new thread|could not spawn threads|out of memory"
)


class EpigramError(Exception):
    """Base class of errors with an exit code; `str(error)` is the message for the user."""

    code: int = 70


class ParameterError(EpigramError):
    """Invalid value in params.yaml or on the command line; the message has the key, the value and what is expected."""

    code = 64


class DataError(EpigramError):
    """Data that violate a rule; the message has the file, row, column, value and rule."""

    code = 65


class ReadOptionError(DataError):
    """Data error that an option of the reader may resolve; the message advises to set `read.OPTION` of a source.

    A caller whose user sets the option elsewhere replaces the advice.
    """

    def __init__(self, problem: str, option: str, value: str = "NAME", condition: str = "") -> None:
        super().__init__(f"{problem}; {condition}set read.{option}: {value}")
        self.problem, self.option, self.value, self.condition = problem, option, value, condition

    def with_advice(self, **advice: str) -> DataError:
        """Return the error with the `advice` on its option, in which {} is the value, or without any advice."""
        found = advice.get(self.option)
        return DataError(
            self.problem if found is None else f"{self.problem}; {self.condition}{found.format(self.value)}"
        )


class InputMissingError(EpigramError):
    """Missing input file."""

    code = 66


class SourceUnavailableError(EpigramError):
    """Unreachable data source; a retry may succeed."""

    code = 69


class DiskError(EpigramError):
    """Full, read-only or damaged disk."""

    code = 74


class TryAgainError(EpigramError):
    """Busy lock, or interrupted work whose state is saved."""

    code = 75


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that a GPU or the machine is out of memory.

    Libraries report it with a class of their own, or only in the message.
    """
    by_class = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's is not imported
    return by_class or bool(OUT_OF_MEMORY_MESSAGE.search(str(error)))


def is_panic(error: BaseException) -> bool:
    """Return whether a Rust library panicked; PyO3 raises a class that is not derived from Exception."""
    return type(error).__name__ == "PanicException"
