"""DVC's command line, with a lock file in which only the block of the stage that ended is written anew.

DVC itself parses all of dvc.lock with its comments and writes all of it whenever a stage ends: five seconds where 43
systems stand in it. The block is what DVC's own dumper makes of the stage, so the file is DVC's to the byte.

Run as a file with -P, as the workspace that DVC works in may lack this package: python -P tasks/dvc_repro.py repro …
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from dvc import dvcfile
from dvc.cli import main
from dvc.stage import serialize
from dvc.utils.serialize import dumps_yaml

HEAD = "schema: '2.0'\nstages:\n"
BLOCK = re.compile(r"  [\w@.-]+:\n(?:   .*\n)*")  # a stage's line, and what is further in

whole = dvcfile.Lockfile.dump_stages  # DVC's own


def dump_stages(self: Any, stages: list[Any], **options: Any) -> None:
    """In the place of `Lockfile.dump_stages`, which does it where the file is not as DVC writes it."""
    file = Path(self.path)
    before = file.read_text(encoding="utf-8") if self.exists() else HEAD
    blocks = blocks_of(before)
    made = [dumps_yaml({"stages": serialize.to_lockfile(stage, **options)}).partition("\n")[2] for stage in stages]
    if blocks is None or not stages or not all(map(BLOCK.fullmatch, made)):
        whole(self, stages, **options)
        return
    blocks.update((block.partition("\n")[0], block) for block in made)
    after = HEAD + "".join(blocks.values())
    if after != before:
        file.write_text(after, encoding="utf-8")
        self.repo.scm_context.track_file(self.relpath)


def blocks_of(text: str) -> dict[str, str] | None:
    """The text of each stage by its first line, in their order; None where anything else stands in the file."""
    blocks = BLOCK.findall(text, len(HEAD))
    if not text.startswith(HEAD) or len(HEAD) + sum(map(len, blocks)) != len(text):
        return None
    return {block.partition("\n")[0]: block for block in blocks}


if __name__ == "__main__":
    dvcfile.Lockfile.dump_stages = dump_stages
    sys.exit(main(sys.argv[1:]))
