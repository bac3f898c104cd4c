"""Data parallelism at BERT-base size: two processes on two GPUs against one, with the same batches.

    torchrun --nproc-per-node 2 -m benchmarks.gpu_parallel [--tiny]

prints the texts per second of one run. With --tiny the sizes are small enough for a CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.rows import Row
from benchmarks.timing import ROOT, Plan, SkippedError

LENGTH = 128
SETTINGS = {"max_length": LENGTH}


def measure(*, tiny: bool) -> dict[str, float]:
    """Return texts per second of one run of all processes together, after a short warm-up run."""
    from benchmarks.gpu_data import bert, seconds, split, texts_of
    from benchmarks.gpu_finetune import STEPS, TOKENS, our_config, train_ours

    batch, steps = (4, 2) if tiny else (TOKENS // LENGTH, STEPS)
    model, dev = bert(LENGTH, tiny=tiny), texts_of(split(8, LENGTH, seed=1), LENGTH)
    first, part = (split(batch * count, LENGTH) for count in (2, steps))
    config = our_config(LENGTH, batch)
    train_ours(model, texts_of(first, LENGTH), dev, config)
    return {"texts/s": len(part) / seconds(lambda: train_ours(model, texts_of(part, LENGTH), dev, config))}


def launched(processes: int, *, tiny: bool) -> dict[str, float]:
    """Run `measure` in `processes` new processes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *launcher, "-m", "benchmarks.gpu_parallel", *(["--tiny"] if tiny else [])]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT)]))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=Path.cwd(), env=env, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def rows(plan: Plan) -> list[Row]:
    """Return one row. Raises SkippedError without two GPUs, unless it is a tiny run without any GPU."""
    if torch.cuda.device_count() < 2 and not (plan.tiny and not torch.cuda.is_available()):
        raise SkippedError("two processes need two GPUs")
    two, one = plan.alternate(
        lambda: launched(2, tiny=plan.tiny),
        lambda: measure(tiny=True) if plan.tiny else launched(1, tiny=False),
        rounds=3,
    )
    return [Row(f"BERT base, L = {LENGTH}, two processes", "texts/s", two["texts/s"], {"one process": one["texts/s"]})]


def main() -> None:
    """Run in the launcher's process group; the first process prints."""
    from epigram.training.distributed import parallel

    with parallel.process_group():
        told = measure(tiny="--tiny" in sys.argv)
        if not parallel.rank():
            print(json.dumps(told))


if __name__ == "__main__":
    main()
