"""examine: find suspected labels and near duplicates in train, and what more labels would do.

python -m epigram.stages.examine VALIDATED OUT

Writes OUT/suspects.csv, OUT/near_duplicates.csv, OUT/learning_curve.json, and OUT/report.html, a part of the report.
"""

from __future__ import annotations

from pathlib import Path

from epigram.core.files import atomic_folder, write_text
from epigram.core.settings import Params
from epigram.evaluation.settings import ExamineSettings
from epigram.process.display import echo
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

PARAMS = ("examine",)


def run(settings: ExamineSettings, validated: Path, out: Path) -> None:
    """Examine the training rows and write `out` atomically."""
    from epigram.evaluation.quality.data_quality import write_quality
    from epigram.evaluation.quality.examine_train import examine_train
    from epigram.report.quality import describe_quality, render_quality
    from epigram.text.dataset.validated_corpus import ValidatedCorpus

    corpus = ValidatedCorpus.read(validated)
    quality = examine_train(corpus, settings)
    with atomic_folder(out) as folder:
        write_quality(folder, quality)
        write_text(folder / "report.html", render_quality(quality, corpus.language))
    echo(describe_quality(quality))


@handle_errors
def main() -> None:
    """Read the settings and write the findings."""
    validated, out = map(Path, arguments("VALIDATED", "OUT"))
    run(Params.read(PARAMS).section("examine", ExamineSettings), validated, out)


if __name__ == "__main__":
    run_stage(main)
