"""encode: texts as flat arrays of token ids, one view a tokenization.

python -m pithy.stages.encode VIEW VALIDATED AUGMENTED POS OUT
"""

from __future__ import annotations

from pathlib import Path

from pithy.errors import arguments, guarded
from pithy.files import atomic_folder, read_json
from pithy.settings import EncodeSettings, View, select
from pithy.text.pos_table import load
from pithy.text.rows import Corpus
from pithy.text.vocabulary import reading
from pithy.text.write_view import write_view

PARAMS = ("views.{key}", "encode")


def run(
    name: str, view: View, settings: EncodeSettings, validated: Path, augmented: Path, pos: Path, out: Path
) -> None:
    """Encode the corpus in one view; `out` appears whole or not at all."""
    corpus, table = Corpus.read(validated), load(pos)
    prefix = read_json(augmented / "prompt.json")["prefix"] if view.prompt else ""
    read = reading(view, settings, corpus, prefix)
    with atomic_folder(out) as folder:
        tallies = write_view(folder, name, view, corpus, read, table)
    for split, tally in tallies.items():
        unknown = f"{100 * tally.unknown_share:.2f}% unknown"
        print(f"{name} {split}: {tally.tokens:,} tokens, {unknown}, {tally.truncated:,} texts cut short")


@guarded
def main() -> None:
    """Read the settings and encode one view."""
    name, validated, augmented, pos, out = arguments("VIEW", "VALIDATED", "AUGMENTED", "POS", "OUT")
    settings = select(PARAMS, key=name)
    run(name, settings.views[name], settings.encode, Path(validated), Path(augmented), Path(pos), Path(out))


if __name__ == "__main__":
    main()
