"""Examination of the training rows: suspected labels, near duplicates, and what more labels would do."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from epigram.core.files import atomic_folder, write_json
from epigram.evaluation.quality.data_quality import QUALITY, describe_quality
from epigram.evaluation.quality.examine_train import examine_train
from epigram.evaluation.settings import ExamineSettings
from epigram.process.display import echo
from epigram.text.dataset.validated_corpus import ValidatedCorpus


def examine_corpus(settings: ExamineSettings, validated: Path, out: Path) -> None:
    """Examine the training rows and write the findings to `out`, atomically."""
    quality = examine_train(ValidatedCorpus.read(validated), settings)
    with atomic_folder(out) as folder:
        write_json(folder / QUALITY, asdict(quality))
    echo(describe_quality(quality))
