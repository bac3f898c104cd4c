"""Candidates of a fit in the order of experience, with the time that each one needs.

Experience (docs/accuracy.md): with an installed encoder, the frozen encoder beside TF-IDF leads on all seven data sets
at 100 to 500 rows; fine-tuning comes close with more rows, and the linear SVM alone only where texts are long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from epigram.checkpoints.folders import installed_encoder
from epigram.core.files import read_json
from epigram.fitting.steps import Steps
from epigram.models.settings import System
from epigram.text.dataset.encoded_dataset import View
from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus
from epigram.text.settings import ViewSettings
from epigram.training.trials.__main__ import load_libraries, run
from epigram.training.trials.spec import TrialResult, TrialSpec
from epigram.workflow.search import candidates
from epigram.workflow.search.candidates import ENCODED, Candidate, Facts
from epigram.workflow.search.costs import Costs, contrastive_seconds, frozen_seconds, linear_seconds
from epigram.workflow.search.fitting import lengthened
from epigram.workflow.search.goal import Quality
from epigram.workflow.search.halving import Pace, Tried, pace_of, predicted_pace

FEW_TEXTS = 2_000  # training texts up to which the first system is trained without an estimate
PROBED = 64  # texts of a trial that measures the time
PAIRS_SLACK = 2.0  # times the estimate of a training on pairs; 71 s were measured where it was below 43 s
IN_PROCESS = Costs(stage=0.2, end=0.0)  # seconds of a step besides its work


@dataclass
class Prospects:
    """The candidates for the validated texts of `steps`, and their estimated times.

    A view is encoded, and the pace on it measured, when the first candidate that reads it is considered.
    """

    steps: Steps
    quality: Quality

    def ordered(self) -> list[Candidate]:
        """Return the candidates in the order in which they are tried."""
        facts = self.facts
        frozen, pairs = candidates.frozen(facts), candidates.contrastive(facts, self.quality)
        tuned, linear = candidates.trained(facts, self.quality)[:1], candidates.linear(facts)
        return [*frozen[:1], *pairs, *tuned, linear[0] if frozen else linear[-1], *frozen[1:]]

    def fitting(self, candidate: Candidate, left: float) -> Candidate | None:
        """Return the candidate as it fits into `left` seconds, None if it does not fit.

        The first one by experience fits without an estimate where the texts are few: it is the answer in hand.
        """
        if not self._probes and self.facts.train <= FEW_TEXTS and self.facts.checkpoint:
            return candidate
        if candidate.name in {"fine_tuned", "textcnn"}:
            return lengthened(candidate, self._pace(candidate), self.facts, left, IN_PROCESS)
        return candidate if self.seconds(candidate) <= left else None

    def seconds(self, candidate: Candidate) -> float:
        """Return the estimated seconds of a candidate that is fitted in closed form, or on pairs."""
        probe = self._probe(candidate.system.view)
        if candidate.name == "tfidf_svm":
            return linear_seconds(probe, self.facts, IN_PROCESS)
        if candidate.name == "setfit":
            return PAIRS_SLACK * contrastive_seconds(candidate, probe, self.facts, IN_PROCESS)
        return frozen_seconds(candidate, probe, self.facts, IN_PROCESS)

    def learn(self, candidate: Candidate) -> None:
        """Note the speed of the encoder that the evaluation of a trained candidate has measured."""
        speed = read_json(self.steps.folder / "speed" / f"{candidate.name}.json")
        if candidate.system.view == ENCODED:
            self._probes[ENCODED] = TrialResult(
                score=0.0, loss=0.0, rows=1, held_out=1, seconds=0.0, ms_per_text=1000 / speed["texts_per_second"]
            )

    def encode(self, view: str) -> None:
        """Encode a view, unless it is encoded."""
        if not (self.steps.folder / "encoded" / view).exists():
            self.steps.encode(view, ViewSettings(**candidates.views(self.facts)[view]))

    def _pace(self, candidate: Candidate) -> Pace:
        """Return the pace of a training by gradient: by the speed of the encoder, or by a trial without one."""
        if candidate.system.view == ENCODED:
            return predicted_pace(self._probe(ENCODED))
        return pace_of(Tried(candidate, self._trial(candidate)))

    def _probe(self, view: str) -> TrialResult:
        """Return the result of a trial of the fastest system on a view, which measures the time."""
        if view not in self._probes:
            encoder = Candidate(name="embedding_linear", system=System(view=ENCODED))
            self._probes[view] = self._trial(encoder if view == ENCODED else candidates.linear(self.facts)[-1])
        return self._probes[view]

    def _trial(self, candidate: Candidate) -> TrialResult:
        """Return the result of a candidate on few texts."""
        view = candidate.system.view
        self.encode(view)
        load_libraries()
        spec = TrialSpec(name=candidate.name, system=candidate.settings, rows=PROBED, held_out=PROBED, folds=1)
        encoded, pretrained = (self.steps.folder / each / view for each in ("encoded", "pretrained"))
        return run(spec, View.load(encoded), pretrained)

    @cached_property
    def _probes(self) -> dict[str, TrialResult]:
        return {}

    @cached_property
    def facts(self) -> Facts:
        """What the candidates depend on."""
        corpus = ValidatedCorpus.read(self.steps.folder / "validated")
        train, dev, test = (corpus.rows.get(name, 0) for name in SPLITS)
        return Facts(
            language=corpus.language,
            train=train,
            dev=dev,
            test=test,
            folds=corpus.folds,
            checkpoint=installed_encoder(corpus.language),
            classes=len(corpus.labels),
            examined=self.steps.settings.examine.rows,
        )
