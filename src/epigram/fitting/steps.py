"""The steps of the pipeline in this process, in a folder laid out like the folder `data` of a project."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from epigram.core.files import read_json
from epigram.core.machine import describe_machine
from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.records.results import Metrics, read_metrics
from epigram.evaluation.records.summary import Summary, read_summary
from epigram.evaluation.settings import (
    AUTO,
    CompareSettings,
    EnsembleSettings,
    EvaluateSettings,
    ExamineSettings,
    MetricSetting,
    ReportSettings,
)
from epigram.models.settings import System
from epigram.pruning.settings import PruneSettings
from epigram.text.settings import NO_TAGGER, AugmentSettings, EncodeSettings, PosTableSettings, ViewSettings

TIMED = 32  # texts that are predicted one at a time to measure the speed; more would take seconds of a short budget


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings of the steps, as in the sections of params.yaml; no system that `fit` tries reads parts of speech."""

    seeds: Sequence[int] = (0,)
    metric: MetricSetting = AUTO
    validate: ValidateSettings = field(default_factory=ValidateSettings)
    examine: ExamineSettings = field(default_factory=ExamineSettings)
    pos_table: PosTableSettings = field(default_factory=lambda: PosTableSettings(tagger=NO_TAGGER))
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    train: dict[str, Any] = field(default_factory=dict)
    prune: PruneSettings = field(default_factory=lambda: PruneSettings(enabled=False))
    evaluate: EvaluateSettings = field(default_factory=lambda: EvaluateSettings(timing_texts=TIMED))
    ensemble: EnsembleSettings = field(default_factory=EnsembleSettings)
    compare: CompareSettings = field(default_factory=lambda: CompareSettings(prefer="best"))
    report: ReportSettings = field(default_factory=ReportSettings)


class Steps:
    """The steps on the raw texts in `folder`/raw. Each one is the function that the pipeline's stage calls."""

    def __init__(self, folder: Path, settings: StepSettings) -> None:
        self.folder, self.settings, self.views = folder, settings, dict[str, ViewSettings]()

    @property
    def chosen(self) -> Path:
        """Folder of the chosen model, after `compare`."""
        return self.folder / "compared" / "chosen"

    @property
    def report(self) -> Path:
        """The report, after `compare`."""
        return self.folder / "compared" / "report.html"

    def validate(self) -> None:
        """Check and split the texts, and write the part-of-speech table and the prompt. Raises DataError for faults."""
        from epigram.workflow.augment import write_prompt
        from epigram.workflow.pos_table import write_pos_table
        from epigram.workflow.validate import validate_corpus

        validated, settings = self.folder / "validated", self.settings
        validate_corpus(settings.validate, settings.metric, self.folder / "raw", validated)
        write_pos_table(settings.pos_table, validated, self.folder / "pos_versions", self.folder / "pos")
        write_prompt(settings.augment, validated, self.folder / "augmented")

    def left_out_rows(self) -> list[str]:
        """Return notes on the rows that `validate` left out because they have no text or no label."""
        from epigram.data.validation.violations import EMPTY, NO_LABEL

        lacking, notes = {EMPTY: "a text", NO_LABEL: "a label"}, list[str]()
        for rule in read_json(self.folder / "validated" / "report.json")["rules"]:
            count, what = rule["dropped"], lacking.get(rule["rule"])
            if count and what:
                line = f"line {rule['examples'][0]['line']}"
                many = f"{count:,} rows without {what} are left out, the first in {line}"
                notes.append(f"1 row without {what} is left out, {line}" if count == 1 else many)
        return notes

    def encode(self, name: str, view: ViewSettings) -> None:
        """Encode the texts for one view, and pretrain on it if the view says so."""
        from epigram.workflow.encode import encode_view
        from epigram.workflow.pretrain import pretrain_view

        validated, augmented, pos = (self.folder / each for each in ("validated", "augmented", "pos"))
        encoded = self.folder / "encoded" / name
        self.views[name] = view
        encode_view(name, view, self.settings.encode, validated, augmented, pos, encoded)
        state = self.folder / "state" / name
        pretrain_view(name, view.pretrain, encoded, self.folder / "pretrained" / name, state=state)

    def train(self, name: str, system: System) -> Metrics:
        """Train, prune and evaluate a system, and return its metrics."""
        from epigram.workflow.evaluate import evaluate_models
        from epigram.workflow.prune import prune_system
        from epigram.workflow.train import checked_setup, train_system

        settings, state = self.settings, self.folder / "state"
        encoded, pretrained = (self.folder / each / system.view for each in ("encoded", "pretrained"))
        models, pruned, evaluated = (self.folder / each / name for each in ("models", "pruned", "evaluated"))
        setup, warnings = checked_setup(name, system, settings.train, settings.metric, encoded, pretrained)
        train_system(system, setup, settings.seeds, models, warnings=warnings, state=state / f"train-{name}")
        pruning = settings.prune.of(system)
        prune_system(
            name, pruning, settings.metric, settings.seeds, encoded, models, pruned, state=state / f"prune-{name}"
        )
        validated, speed = self.folder / "validated", self.folder / "speed"
        evaluation = settings.evaluate, settings.metric, settings.seeds
        evaluate_models(name, *evaluation, validated, encoded, pruned, evaluated, speed=speed)
        return read_metrics(evaluated)

    def compare(
        self,
        systems: Mapping[str, dict[str, Any]],
        rows: int,
        expected: Mapping[str, float] | None = None,
        advice: str = "",
    ) -> Summary:
        """Combine and compare the trained `systems`, settings by name, choose one and write the report.

        `rows` training texts are examined. `expected` are the accuracies of systems by experience. `advice` is the
        report's first step to improve the model.
        """
        from epigram.workflow.compare import compare_systems
        from epigram.workflow.ensemble import combine_systems
        from epigram.workflow.examine import examine_corpus

        validated, examined, evaluated, ensemble, pruned, compared, speed = (
            self.folder / each
            for each in ("validated", "examined", "evaluated", "ensemble", "pruned", "compared", "speed")
        )
        settings = self.settings
        examine_corpus(replace(settings.examine, rows=rows), validated, examined)
        combine_systems(
            list(systems), settings.ensemble, settings.evaluate, validated, evaluated, pruned, ensemble, speed=speed
        )
        folders = validated, examined, evaluated, ensemble, pruned, compared
        compare_systems(systems, settings.compare, *folders, expected=expected, advice=advice)
        return self._with_speed(read_summary(compared / "summary.json"))

    def _with_speed(self, summary: Summary) -> Summary:
        """Write speeds, date and machine into the report, and return the summary with the speeds."""
        from markupsafe import Markup

        from epigram.report.page import MODEL, render_run

        times = {row.system: read_json(self.folder / "speed" / f"{row.system}.json") for row in summary.rows}
        rows = [replace(row, ms_per_text=times[row.system]["ms_per_text"]) for row in summary.rows]
        summary = replace(summary, rows=rows)
        facts = {"finished": time.strftime("%Y-%m-%d %H:%M"), "machine": describe_machine(), "model": Markup(MODEL)}
        about = {"name": "", "revision": "", "stages": {}, **facts, "systems": [asdict(row) for row in rows]}
        render_run(self.report, self.report, {**asdict(summary), **about})
        return summary
