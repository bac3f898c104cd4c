"""The mutants: a seeded sample of the operators' edits, and handwritten ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.mutation.generate import edits, valid
from tests.mutation.source import Edit, Source

ROOT = Path(__file__).resolve().parents[2]
HANDWRITTEN = Path(__file__).parent / "handwritten"
QUOTAS = {"training": 90, "inference": 70, "evaluation": 90, "pruning": 30}
QUOTAS |= {"nn/layers": 45, "nn/heads": 30, "text": 40, "data": 40}
SEED = 0


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `lines` are the changed statements, `function` is the function that contains them."""

    id: str
    file: str
    origin: str
    effect: str
    edit: Edit
    lines: range
    function: str

    @property
    def package(self) -> str:
        """Package of the changed file: "training" for src/epigram/training/trainer.py."""
        parts = Path(self.file).parts
        return parts[2] if len(parts) > 3 else "core" if parts[0] == "src" else parts[0]

    @property
    def line(self) -> int:
        """Number of the first changed line."""
        return (ROOT / self.file).read_bytes().count(b"\n", 0, self.edit.start) + 1


def sample() -> list[Mutant]:
    """Return the sample: per package, the mutants with the smallest hashes, at most one per line."""
    chosen = []
    for package, quota in QUOTAS.items():
        lines: set[tuple[str, int]] = set()
        for mutant in sorted(_of_package(package), key=lambda each: _digest(SEED, each.id)):
            place = (mutant.file, mutant.lines[0])
            if len(lines) < quota and place not in lines and valid(_source(mutant.file), mutant.edit):
                lines.add(place)
                chosen.append(mutant)
    return chosen


def _of_package(package: str) -> Iterator[Mutant]:
    for path in sorted((ROOT / "src" / "epigram" / package).rglob("*.py")):
        yield from generated(str(path.relative_to(ROOT)))


@cache
def _source(file: str) -> Source:
    return Source((ROOT / file).read_text())


def generated(file: str) -> Iterator[Mutant]:
    """Yield every mutant of `file`. An id depends on the function and the change, not on the line."""
    source, seen = _source(file), Counter[str]()
    for edit in edits(source):
        line = source.line(edit.start)
        lines, function = source.span(line, source.line(edit.end)), source.function(line)
        old = source.data[edit.start : edit.end].decode()
        statement = source.data.splitlines()[lines[0] - 1].decode().strip()
        key = "|".join([file, function, edit.kind, statement, old, edit.new])
        seen[key] += 1
        place = (
            Path(file).relative_to("src/epigram").with_suffix("").as_posix() if file.startswith("src/epigram") else file
        )
        mutant_id = f"{place}:{function or 'module'}:{_digest(key, seen[key])[:6]}"
        yield Mutant(mutant_id, file, "sample", f"{edit.kind}: {old!r} → {edit.new!r}", edit, lines, function)


def _digest(*parts: Any) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def handwritten(folder: Path = HANDWRITTEN, root: Path = ROOT) -> list[Mutant]:
    """Load and check the handwritten mutants: YAML lists of {id, file, old, new, effect}.

    Raises ValueError with every entry that does not apply.
    """
    entries = [entry for path in sorted(folder.glob("*.yaml")) for entry in yaml.safe_load(path.read_text()) or []]
    repeated = [name for name, count in Counter(str(entry["id"]) for entry in entries).items() if count > 1]
    errors = [f"{name}: the id is used more than once" for name in repeated]
    mutants = []
    for entry in entries:
        try:
            mutants.append(_written(entry, root))
        except (OSError, SyntaxError, ValueError) as error:
            errors.append(f"{entry['id']}: {error}")
    if errors:
        raise ValueError("\n".join(errors))
    return mutants


def _written(entry: dict[str, str], root: Path) -> Mutant:
    file, old, new = entry["file"], entry["old"], entry["new"]
    text = (root / file).read_text()
    if (count := text.count(old)) != 1:
        raise ValueError(f"{file}: `old` occurs {count} times; it must occur once")
    if old == new:
        raise ValueError(f"{file}: `new` is `old`")
    start = len(text[: text.index(old)].encode())
    edit = Edit("handwritten", start, start + len(old.encode()), new)
    if file.endswith(".py"):
        source = Source(text)
        compile(source.changed(edit), file, "exec")
        first, last = changed_lines(old, new)
        line = source.line(start)
        lines = source.span(line + first, line + last)
        return Mutant(str(entry["id"]), file, "handwritten", entry["effect"], edit, lines, source.function(lines[0]))
    lines = range(text[: text.index(old)].count("\n") + 1, text[: text.index(old)].count("\n") + 2)
    return Mutant(str(entry["id"]), file, "handwritten", entry["effect"], edit, lines, "")


def changed_lines(old: str, new: str) -> tuple[int, int]:
    """Return the first and last line of `old`, from 0, that `new` changes."""
    before, after = old.splitlines(), new.splitlines()
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = len(before) - 1
    while last > first and len(after) - (len(before) - last) >= first and before[last] == after[last - len(before)]:
        last -= 1
    first = min(first, len(before) - 1)
    return first, max(first, last)
