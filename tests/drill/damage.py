"""File faults: truncated files and flipped bits."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.drill.bench import Bench
from tests.drill.evidence import NEVER
from tests.drill.faults import Injection, any_stage, fault
from tests.drill.kills import learning
from tests.drill.place import moment
from tests.drill.reference import cache_files


def spoil(path: Path, rng: random.Random) -> tuple[str, bool]:
    """Truncate a file or flip one of its bits; return what was done, and whether the file on disk differs now.

    The access time is set to `NEVER`; a read changes it (see `was_read`).
    """
    before, mode = path.read_bytes(), path.stat().st_mode
    content = bytearray(before)
    if not content or rng.random() < 0.4:
        content, what = content[: rng.randrange(max(1, len(content)))], "truncated"
    else:
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        what = f"bit flipped at {place}"
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)
    changed = path.read_bytes() != before
    os.utime(path, ns=(NEVER, path.stat().st_mtime_ns))
    return what, changed


def was_read(path: Path) -> bool:
    """Return whether the file was read or replaced after it was damaged."""
    return not path.exists() or path.stat().st_atime_ns != NEVER


def newest(state: Path) -> list[Path]:
    """Return the files of `state` that the next run reads: no locks, and only each training's newest checkpoint."""
    files = [path for path in state.rglob("*") if path.is_file() and path.stat().st_size and path.suffix != ".lock"]
    steps = {path.parent for path in files if path.parent.name.lstrip(".").startswith("step-")}
    whole = [step for step in steps if not step.name.startswith(".")]
    read = {max(step for step in whole if step.parent == each.parent) for each in whole}
    return sorted(path for path in files if path.parent not in steps - read)


def _file(bench: Bench, rng: random.Random, *stages: str) -> Path:
    """Return a random output file of the stages; models, tables and arrays are preferred."""
    outs = [bench.repo / out for stage in stages for out in bench.reference.outs(stage)]
    files = sorted(path for out in outs for path in out.rglob("*") if path.is_file() and path.stat().st_size)
    binary = [path for path in files if path.suffix in {".safetensors", ".parquet", ".npy"}]
    return rng.choice(binary if binary and rng.random() < 0.7 else files)


@fault("a damaged output", 12)
def output_damaged(bench: Bench, rng: random.Random) -> Injection:
    path = _file(bench, rng, any_stage(bench, rng))
    what, changed = spoil(path, rng)
    return Injection(f"{path.relative_to(bench.repo)} {what}", changed)


@fault("a damaged input of a stage", 16)
def input_damaged(bench: Bench, rng: random.Random) -> Injection:
    """Damage an input of a stage: the stage must report it in one clear line, or succeed, and DVC runs it again."""
    needs = bench.reference.needs
    name = rng.choice(sorted(stage for stage in needs if needs[stage]))
    path = _file(bench, rng, *sorted(needs[name]))
    what, changed = spoil(path, rng)
    ended = bench.stage(name).wait()
    observed = changed and was_read(path)
    return Injection(f"{name}: {path.relative_to(bench.repo)} {what}", observed, ended, {0, 65, 66})


@fault("a damaged file of DVC's cache", 12)
def cache_damaged(bench: Bench, rng: random.Random) -> Injection:
    """Damage a cache file and delete its output, which DVC restores; the flow or `make repair` checks the cache."""
    name = any_stage(bench, rng)
    path = rng.choice(sorted(cache_files(bench.reference.lock, bench.cache)[name]))
    what, changed = spoil(path, rng)
    bench.remove(name)
    detail = f"{name}: {path.relative_to(bench.cache)} {what}"
    return Injection(detail, changed, by=rng.choice(["repair", "flow"]))


@fault("a damaged state of training", 12)
def state_damaged(bench: Bench, rng: random.Random) -> Injection:
    running, name = learning(bench, rng)
    running.after(moment(rng, bench.reference.seconds[name] / 4))
    running.kill()
    bench.wait_until_idle()
    state = bench.repo / ".epigram/state"
    files = newest(state)
    if not files:
        return Injection("no state yet", False)
    path = rng.choice(files)
    what, changed = spoil(path, rng)
    return Injection(f"{name}: {path.relative_to(state)} {what}", changed)


@fault("a file of DVC's that is lost", 6)
def lost_file(bench: Bench, rng: random.Random) -> Injection:
    """Delete dvc.lock, an output file or a cache file."""
    name = any_stage(bench, rng)
    files = sorted(cache_files(bench.reference.lock, bench.cache)[name])
    path = rng.choice([bench.repo / "dvc.lock", _file(bench, rng, name), rng.choice(files)])
    path.unlink()
    return Injection(str(path.relative_to(bench.repo)), not path.exists())


@fault("times of files that jump", 6)
def times_changed(bench: Bench, rng: random.Random) -> Injection:
    """Shift the modification times of about 70 % of the files by up to ten years, as a wrong clock does."""
    offset, changed = rng.uniform(-3e8, 3e8), False
    for path in bench.repo.rglob("*"):
        if ".git" not in path.parts and path.is_file() and not path.is_symlink() and rng.random() < 0.7:
            before = path.stat().st_mtime
            os.utime(path, (before + offset, before + offset))
            changed |= path.stat().st_mtime != before
    name = any_stage(bench, rng)
    bench.forget(bench.reference.after(name))
    return Injection(f"by {offset / 86400:.0f} days, {name} and on", changed, bench.dvc().wait(), {0})
