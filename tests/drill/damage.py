"""Faults of files: truncated, or with one bit that is another."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.drill.bench import Bench
from tests.drill.faults import Struck, any_stage, fault
from tests.drill.kills import learning
from tests.drill.reference import cache_files


def spoil(path: Path, rng: random.Random) -> str:
    """Truncate a file or flip one of its bits; what was done."""
    content, mode = bytearray(path.read_bytes()), path.stat().st_mode
    if not content or rng.random() < 0.4:
        content, what = content[: rng.randrange(max(1, len(content)))], "truncated"
    else:
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        what = f"bit flipped at {place}"
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)
    return what


def _file(bench: Bench, rng: random.Random, *stages: str) -> Path:
    """A file of the outputs of one of the stages; models, tables and arrays before the rest."""
    outs = [bench.repo / out for stage in stages for out in bench.reference.outs(stage)]
    files = sorted(path for out in outs for path in out.rglob("*") if path.is_file() and path.stat().st_size)
    binary = [path for path in files if path.suffix in {".safetensors", ".parquet", ".npy"}]
    return rng.choice(binary if binary and rng.random() < 0.7 else files)


@fault("a damaged output", 12)
def output_damaged(bench: Bench, rng: random.Random) -> Struck:
    path = _file(bench, rng, any_stage(bench, rng))
    return Struck(f"{path.relative_to(bench.repo)} {spoil(path, rng)}")


@fault("a damaged input of a stage", 16)
def input_damaged(bench: Bench, rng: random.Random) -> Struck:
    """The stage refuses it in one clear line, or, where the fault cannot be seen, DVC runs it again."""
    needs = bench.reference.needs
    name = rng.choice(sorted(stage for stage in needs if needs[stage]))
    path = _file(bench, rng, *sorted(needs[name]))
    what = spoil(path, rng)
    ended = bench.stage(name).wait()
    return Struck(f"{name}: {path.relative_to(bench.repo)} {what}", ended, {0, 65, 66})


@fault("a damaged file of DVC's cache", 12)
def cache_damaged(bench: Bench, rng: random.Random) -> Struck:
    """The output is gone too, so that DVC takes it from the cache; the flow looks at what it took, or mend is asked."""
    name = any_stage(bench, rng)
    path = rng.choice(sorted(cache_files(bench.reference.lock, bench.cache)[name]))
    what = spoil(path, rng)
    bench.remove(name)
    return Struck(f"{name}: {path.relative_to(bench.cache)} {what}", by=rng.choice(["mend", "flow"]))


@fault("a damaged state of training", 12)
def state_damaged(bench: Bench, rng: random.Random) -> Struck:
    running, name = learning(bench, rng)
    running.after(rng.uniform(0.0, bench.reference.seconds[name] / 2))
    running.kill()
    files = sorted(path for path in (bench.repo / ".pithy/state").rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        return Struck("no state yet", struck=False)
    path = rng.choice(files)
    what = spoil(path, rng)
    return Struck(f"{name}: {path.relative_to(bench.repo / '.pithy/state')} {what}")


@fault("a file of DVC's that is lost", 6)
def lost_file(bench: Bench, rng: random.Random) -> Struck:
    """dvc.lock, an output, or a file of the cache is removed."""
    name = any_stage(bench, rng)
    files = sorted(cache_files(bench.reference.lock, bench.cache)[name])
    path = rng.choice([bench.repo / "dvc.lock", _file(bench, rng, name), rng.choice(files)])
    path.unlink()
    return Struck(str(path.relative_to(bench.repo)))


@fault("times of files that jump", 6)
def times_changed(bench: Bench, rng: random.Random) -> Struck:
    """A clock that was wrong: every file is from another time, up to ten years off."""
    offset = rng.uniform(-3e8, 3e8)
    for path in bench.repo.rglob("*"):
        if ".git" not in path.parts and path.is_file() and not path.is_symlink() and rng.random() < 0.7:
            at = path.stat().st_mtime + offset
            os.utime(path, (at, at))
    name = any_stage(bench, rng)
    bench.forget(bench.reference.after(name))
    return Struck(f"by {offset / 86400:.0f} days, {name} and on", bench.dvc().wait(), {0})
