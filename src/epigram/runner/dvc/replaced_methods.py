"""Methods of DVC that a process of `dvc repro` replaces: DVC has no settings for what they do.

* An input that changes while the command of its stage runs fails the stage, and nothing is recorded. DVC itself hashes
  the inputs again after the command and records these hashes next to the output of the old inputs.
* When a stage ends, only its block of dvc.lock is written. DVC itself parses and writes the whole file with its
  comments, which takes five seconds with 43 systems. DVC's own dumper writes the block, so the file is identical to
  DVC's, byte for byte.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dvc import dvcfile
from dvc.stage import Stage
from dvc.stage.serialize import to_lockfile
from dvc.utils.serialize import dumps_yaml

from epigram.core.errors import TryAgainError

HEAD = "schema: '2.0'\nstages:\n"
BLOCK = re.compile(r"  [\w@.-]+:\n(?:   .*\n)*")  # a stage's line and the lines indented below it


def check_inputs_again() -> None:
    """Replace two methods of `Stage` in this process.

    A stage then raises TryAgainError, before DVC records it, if an input differs from the one before the command.
    """
    stage_class: Any = Stage
    run, save = stage_class._run_stage, stage_class.save_deps

    def run_stage(self: Any, dry: bool, force: bool, **options: Any) -> None:
        if force and not dry:
            self.save_deps()  # DVC itself hashes the inputs, for its run cache, only if a stage is not forced
        run(self, dry, force, **options)
        self.inputs_of_command = [dependency.hash_info for dependency in self.deps]

    def save_deps(self: Any, **options: Any) -> None:
        save(self, **options)
        before = vars(self).pop("inputs_of_command", ())  # empty before the command
        changed = [str(new) for new, old in zip(self.deps, before, strict=False) if new.hash_info != old]
        if changed:
            raise TryAgainError(f"{', '.join(changed)} changed while {self.addressing} ran; run it again")

    stage_class._run_stage, stage_class.save_deps = run_stage, save_deps


def write_blocks_only() -> None:
    """Replace `Lockfile.dump_stages` in this process."""
    lock_file: Any = dvcfile.Lockfile
    dump_whole_file = lock_file.dump_stages

    def dump_stages(self: Any, stages: list[Any], **options: Any) -> None:
        if not dump_blocks(self, stages, **options):
            dump_whole_file(self, stages, **options)

    lock_file.dump_stages = dump_stages


def dump_blocks(lock_file: Any, stages: list[Any], **options: Any) -> bool:
    """Write the blocks of `stages` to dvc.lock. Return False, without writing, if it is not as DVC formats it."""
    file = Path(lock_file.path)
    old_text = file.read_text(encoding="utf-8") if lock_file.exists() else HEAD
    blocks = split_blocks(old_text)
    new_blocks = [dumps_yaml({"stages": to_lockfile(stage, **options)}).partition("\n")[2] for stage in stages]
    if blocks is None or not stages or not all(map(BLOCK.fullmatch, new_blocks)):
        return False
    blocks.update((block.partition("\n")[0], block) for block in new_blocks)
    new_text = HEAD + "".join(blocks.values())
    if new_text != old_text:
        file.write_text(new_text, encoding="utf-8")
        lock_file.repo.scm_context.track_file(lock_file.relpath)
    return True


def split_blocks(text: str) -> dict[str, str] | None:
    """Return the text of each stage by its first line, in file order; None if the file contains anything else."""
    blocks = BLOCK.findall(text, len(HEAD))
    if not text.startswith(HEAD) or len(HEAD) + sum(map(len, blocks)) != len(text):
        return None
    return {block.partition("\n")[0]: block for block in blocks}
