"""Inputs of a stage that change while its command runs: the stage fails, and nothing is recorded.

DVC hashes the inputs again after the command and records these hashes, in dvc.lock and in its run cache, next to the
output of the old inputs. No later run would notice. DVC has no setting for it.
"""

from __future__ import annotations

from typing import Any

from dvc.stage import Stage

from epigram.core.errors import TryAgainError


def install() -> None:
    """Replace two methods of `Stage` in this process.

    A stage then raises TryAgainError, before DVC records it, if an input differs from the one before the command.
    """
    stage_class: Any = Stage
    run, save = stage_class._run_stage, stage_class.save_deps

    def run_stage(self: Any, dry: bool, force: bool, **options: Any) -> None:
        if force and not dry:
            self.save_deps()  # of a stage that is not forced, DVC hashes the inputs itself, for its run cache
        run(self, dry, force, **options)
        self.inputs_of_command = [dependency.hash_info for dependency in self.deps]

    def save_deps(self: Any, **options: Any) -> None:
        save(self, **options)
        before = vars(self).pop("inputs_of_command", ())  # empty before the command
        changed = [str(new) for new, old in zip(self.deps, before, strict=False) if new.hash_info != old]
        if changed:
            raise TryAgainError(f"{', '.join(changed)} changed while {self.addressing} ran; run it again")

    stage_class._run_stage, stage_class.save_deps = run_stage, save_deps
