"""download: fetch the files of a data source.

python -m epigram.stages.download SOURCE_YAML OUT_DIR
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from epigram.core.files import atomic_folder, write_json
from epigram.core.settings import Params
from epigram.data.sources.settings import DownloadSettings
from epigram.process.display import echo
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

PARAMS = ("download",)
DOWNLOADS = Path(".epigram/downloads")  # outside OUT_DIR, so that an interrupted download can resume


@handle_errors
def main() -> None:
    """Write the verified files, and source.json with the source's description, to OUT_DIR."""
    from epigram.data.sources.fetch import Fetcher
    from epigram.data.sources.source import read_source

    source_yaml, out = map(Path, arguments("SOURCE_YAML", "OUT_DIR"))
    source = read_source(source_yaml)
    fetcher = Fetcher(DOWNLOADS, Params.read(PARAMS).section("download", DownloadSettings), counted=source.counted)
    with atomic_folder(out) as folder:
        for file in source.files:
            echo(f"{file.path} from {fetcher.fetch(file, folder)}")
        write_json(folder / "source.json", asdict(source.public))
    fetcher.clear()


if __name__ == "__main__":
    run_stage(main)
