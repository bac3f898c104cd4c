"""validate: check the raw corpus and split it.

python -m epigram.stages.validate RAW_DIR OUT_DIR
"""

from __future__ import annotations

import shutil
from pathlib import Path

from epigram.core.files import atomic_folder, write_json
from epigram.core.settings import Params
from epigram.data.validation.settings import ValidateSettings
from epigram.process.display import echo
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

PARAMS = ("validate",)


@handle_errors
def main() -> None:
    """Write the three splits, corpus.json and the report to OUT_DIR."""
    from epigram.data.corpus import spool_corpus
    from epigram.data.sources.source import read_source
    from epigram.data.validation.data_report import render_page
    from epigram.data.validation.validate import validate

    raw, out = map(Path, arguments("RAW_DIR", "OUT_DIR"))
    source = read_source(raw / "source.json")
    with atomic_folder(out) as folder:
        spool = folder / "rows"
        spool.mkdir()
        settings = Params.read(PARAMS).section("validate", ValidateSettings)
        result = validate(spool_corpus(source, raw, spool), source, settings)
        for name, part in result.parts.items():
            part.write(folder / f"{name}.parquet")
        shutil.rmtree(spool)
        result.corpus.write(folder)
        write_json(folder / "report.json", result.report)
        (folder / "report.html").write_text(render_page(result.report), encoding="utf-8")
    for note in result.corpus.notes:
        echo(note)


if __name__ == "__main__":
    run_stage(main)
