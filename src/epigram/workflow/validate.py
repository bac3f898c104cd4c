"""Check of the raw corpus, and its splits."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from epigram.core.files import atomic_folder, write_json
from epigram.data.corpus import spool_corpus
from epigram.data.sources.source import read_source
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import validate
from epigram.evaluation.metrics.primary import check_metric
from epigram.evaluation.settings import MetricSetting
from epigram.process.display import echo


def validate_corpus(settings: ValidateSettings, metric: MetricSetting, raw: Path, out: Path) -> None:
    """Write the three splits of the source in `raw`, corpus.json and report.json to `out`, atomically.

    Raises DataError, with all faults in one message, for a corpus that breaks a rule, and ParameterError for a `metric`
    that does not suit the corpus.
    """
    source = read_source(raw / "source.json")
    with atomic_folder(out) as folder:
        spool = folder / "rows"
        spool.mkdir()
        headers = Counter[str]()
        result = validate(spool_corpus(source, raw, spool, headers), source, settings, headers)
        check_metric(metric, result.corpus, declared=bool(source.labels))
        for name, part in result.parts.items():
            part.write(folder / f"{name}.parquet")
        shutil.rmtree(spool)
        result.corpus.write(folder)
        write_json(folder / "report.json", result.report)
    for note in result.corpus.notes:
        echo(note)
