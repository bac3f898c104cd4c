"""Examination of the training rows: suspected labels, near duplicates, and what more labels would do."""

from __future__ import annotations

from pathlib import Path

from epigram.core.files import atomic_folder, write_text
from epigram.evaluation.quality.data_quality import write_quality
from epigram.evaluation.quality.examine_train import examine_train
from epigram.evaluation.settings import ExamineSettings
from epigram.process.display import echo
from epigram.report.quality import describe_quality, outlook, render_quality
from epigram.text.dataset.validated_corpus import ValidatedCorpus


def examine_corpus(settings: ExamineSettings, validated: Path, out: Path) -> None:
    """Examine the training rows and write `out` atomically: the findings, and report.html, a part of the report."""
    corpus = ValidatedCorpus.read(validated)
    quality = examine_train(corpus, settings)
    with atomic_folder(out) as folder:
        write_quality(folder, quality, outlook(quality.curve) if quality.curve else "")
        write_text(folder / "report.html", render_quality(quality, corpus.language))
    echo(describe_quality(quality))
