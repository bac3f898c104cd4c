"""Results of the drill, one JSON line per fault, appended at once, so that an interrupted drill can be continued."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.drill.plan import Planned
from tests.drill.progress import Lost
from tests.drill.reference import ROOT
from tests.drill.trial import Trial

FILE = ROOT / ".epigram" / "drill.jsonl"
DIRTY = "-dirty"


@dataclass(frozen=True)
class Result:
    """A trial, the plan to which it belongs, and its end in seconds since 1970."""

    commit: str
    plan: str
    part: str
    seed: int
    ended: float
    trial: Trial


class Results:
    """Results of one commit in a file. For a tree with uncommitted changes, only those of this process are valid."""

    def __init__(self, commit: str, plan: str, file: Path = FILE) -> None:
        self.commit, self.plan, self.file = commit, plan, file
        self.part = f"{time.time():.3f}-{os.getpid()}"

    def append(self, seed: int, trial: Trial) -> None:
        """Append a result to the file at once."""
        result = Result(self.commit, self.plan, self.part, seed, time.time(), trial)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab", buffering=0) as file:  # line break first: the last line may be incomplete
            file.write(("\n" + json.dumps(asdict(result), ensure_ascii=False)).encode())

    def read(self) -> list[Result]:
        """Return all results of the commit; incomplete lines are skipped."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        found = [result for line in lines if (result := _parsed(line)) and result.commit == self.commit]
        return [each for each in found if each.part == self.part] if self.commit.endswith(DIRTY) else found

    def left(self, planned: list[Planned]) -> list[Planned]:
        """Return the faults of the plan that have no result yet."""
        done = {(each.seed, each.trial.number, each.trial.fault) for each in self.read() if each.plan == self.plan}
        return [each for each in planned if (each.seed, each.number, each.fault.name) not in done]


def minutes(results: list[Result]) -> float:
    """Return the time of all parts together in minutes, each from its first fault to its last."""
    parts: dict[str, list[Result]] = {}
    for result in results:
        parts.setdefault(result.part, []).append(result)
    spans = (
        max(each.ended for each in part) - min(each.ended - each.trial.seconds for each in part)
        for part in parts.values()
    )
    return sum(spans) / 60


def _parsed(line: str) -> Result | None:
    try:
        values: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    trial = values["trial"]
    lost = trial["lost"] and Lost(**trial["lost"] | {"losses": tuple(trial["lost"]["losses"])})
    return Result(**values | {"trial": Trial(**trial | {"losses": tuple(trial["losses"]), "lost": lost})})
