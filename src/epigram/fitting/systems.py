"""Systems that a search may train, in the order of experience, by what is known of the data and of the encoders.

Accuracies order the systems in the table of experience, and rules order all further systems. The rules were made on
agnews_43k, nlpcc2017, dbpedia_small, sst5 and 20newsgroups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from epigram.checkpoints.folders import encoder_command, is_sentence_encoder
from epigram.fitting.experience import nearest
from epigram.models.settings import System
from epigram.text.dataset.language import Language

ENCODED, TOKENS = "sentences", "token"  # views of the pretrained encoder and of training from scratch
BATCH, MIN_STEPS = 32, 60  # settings of fine-tuning; with few rows, epochs alone have too few steps
RATES = (2e-4, 1e-4, 5e-5, 4e-4)  # learning rates of fine-tuning, the first one without a search
# settings of an encoder with layers: the head starts from a regression, and lower layers learn more slowly
HEAD: dict[str, Any] = {"pool": "mean", "layers": 4, "dropout": 0.0}
LAYER_DECAY = 0.8
POOLED_MIN_STEPS, POOLED_RATES = 200, (5e-5, 2e-5, 1e-4, 2e-4)  # an encoder without layers, with a new head
FEW_ROWS = 1_000  # rows up to which an encoder is trained on pairs of texts
PAIRS: dict[str, Any] = {"epochs": 1, "batch_size": 16, "min_steps": 40}  # training on pairs
FEW_PAIRS = PAIRS | {"min_steps": 20, "learning_rate": 2e-4}  # as good with few texts, in half the time
PAIRS_FIRST = 200  # rows up to which an encoder trained on pairs has FEW_PAIRS and comes before a fine-tuned one
# settings of `train` that determine the steps and the evaluations of a system without such settings of its own
SHARED = {"min_steps", "evaluations", "evaluation_steps"}
TRIED_ROWS = 2_000  # rows up to which every learning rate is trained on all texts, and not tried on parts of them
SCRATCH_ROWS = 2_000  # rows from which a network without pretraining is tried
GIVEN: dict[str, Any] = {"orders": [1, 2], "characters": [], "sublinear": True, "weighting": "tfidf", "penalty": 1.0}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The data of a run: its language, rows of each split, folds of train, and a checkpoint of the language, if any.

    `shared` is the section `train` of params.yaml. `in_order`: the metric is of labels in an order.
    """

    language: Language
    train: int
    dev: int
    test: int
    folds: int
    checkpoint: str | None
    classes: int = 2
    shared: Mapping[str, Any] = field(default_factory=dict)
    in_order: bool = False

    @property
    def trainings(self) -> int:
        """Number of trainings of a system: one for each fold, and the final one."""
        return self.folds + 1

    @property
    def fitted(self) -> int:
        """Number of training texts of a trial at most, or of a fold."""
        return self.train - -(-self.train // self.folds) if self.folds else self.train

    @property
    def held_out(self) -> int:
        """Number of texts that judge a training: dev, or all folds of train together."""
        return self.train if self.folds else self.dev

    @property
    def predicted(self) -> int:
        """Number of texts that a system predicts in its evaluation."""
        return self.dev + self.test + (self.train if self.folds else 0)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A system that a search may choose."""

    name: str
    system: System

    @property
    def settings(self) -> dict[str, Any]:
        """The system's settings in params.yaml, as far as they are set."""
        unset = asdict(System(view=self.system.view))
        found = {each.name: getattr(self.system, each.name) for each in fields(System)}
        return {name: value for name, value in found.items() if name == "view" or value != unset[name]}

    @property
    def by_gradient(self) -> bool:
        """Whether the epochs determine the time of the training."""
        return "epochs" in self.system.train and self.name != "setfit"

    @property
    def is_frozen(self) -> bool:
        """Whether the system reads the pretrained encoder as it is."""
        return self.system.view == ENCODED and not self.system.train

    @property
    def recipe(self) -> str:
        """Name of the recipe."""
        return self.system.recipe or self.name

    def renamed(self, name: str) -> Candidate:
        """Return the candidate with another name."""
        return replace(self, name=name)

    def with_train(self, **settings: Any) -> Candidate:
        """Return the candidate with training settings changed."""
        return replace(self, system=replace(self.system, train={**self.system.train, **settings}))

    def with_shared(self, facts: Facts) -> Candidate:
        """Return the candidate with the SHARED settings of the project that it does not set itself.

        It gets no `evaluations` if `evaluation_steps` replaces them: a system must not set what has no effect on it.
        """
        shared = {key: facts.shared[key] for key in sorted(SHARED & set(facts.shared))}
        if shared.get("evaluation_steps") is not None:
            shared.pop("evaluations", None)
        return replace(self, system=replace(self.system, train={**shared, **self.system.train}))

    def steps(self, rows: int) -> int:
        """Return the planned steps of a training by gradient on `rows` texts."""
        train = self.system.train
        return int(max(train["epochs"] * self._steps_per_epoch(rows), train.get("min_steps", 0)))

    def evaluations(self, rows: int) -> int:
        """Return how often a training by gradient on `rows` texts predicts the held-out texts."""
        train, steps = self.system.train, self.steps(rows)
        epochs = -(-steps // self._steps_per_epoch(rows))
        every = train.get("evaluation_steps")
        return epochs + steps // int(every) if every else epochs * int(train.get("evaluations", 1))

    def _steps_per_epoch(self, rows: int) -> int:
        return -(-rows // int(self.system.train["batch_size"]))


def views(facts: Facts) -> dict[str, dict[str, Any]]:
    """Return the views that the candidates read; the linear SVM also counts the characters of English words."""
    characters = {"characters": True} if facts.language == "en" else {}
    found: dict[str, dict[str, Any]] = {TOKENS: {"tokenizer": "token", **characters}}
    if facts.checkpoint:
        found[ENCODED] = {"tokenizer": "wordpiece", "checkpoint": facts.checkpoint}
    return found


def missing_encoder(facts: Facts) -> str:
    """Return how to get a pretrained encoder for the texts; empty if one is installed."""
    if facts.checkpoint:
        return ""
    command = encoder_command(facts.language)
    return f"No pretrained encoder is installed: run {command}, then fit again; with few texts, it often helps most"


def ordered(facts: Facts) -> list[Candidate]:
    """Return the candidates in the order in which they are tried: one on a frozen encoder, then by experience.

    The frozen one takes seconds, is seldom far behind, and its measured speed shows what else fits. It is the
    regression if labels have an order, because that learns it (docs/development/log.md).
    """
    found = by_experience(facts)
    name = "embedding_linear" if facts.in_order else next((each.name for each in found if each.is_frozen), "")
    return sorted(found, key=lambda each: each.name != name)


def by_experience(facts: Facts) -> list[Candidate]:
    """Return the candidates: systems in the table of experience in its order, others in the places of the rules.

    Further learning rates are at the end. Without a test split they are not tried, because the best of many is chosen
    by rows whose out-of-fold predictions are also the score.
    """
    if facts.checkpoint is None:
        return _ranked([baseline(), *([_network(facts)] if facts.train >= SCRATCH_ROWS else [])], facts)
    tuned, *others = fine_tuned(facts)
    trained = [tuned]
    if facts.train <= FEW_ROWS:
        few = facts.train <= PAIRS_FIRST
        pairs = Candidate(name="setfit", system=System(view=ENCODED, train=FEW_PAIRS if few else PAIRS))
        trained = [pairs, tuned] if few else [tuned, pairs]
    last = others if facts.test and facts.train <= TRIED_ROWS else []
    return _ranked([frozen("hybrid_linear"), *trained, baseline(), frozen("embedding_linear"), *last], facts)


def expected(facts: Facts) -> Mapping[str, float]:
    """Return the mean accuracies, in percent, of systems on similar data; none if the labels have an order."""
    found = None if facts.in_order else nearest(facts.language, facts.train, facts.classes)
    return found.accuracy if found else {}


def _ranked(candidates: Sequence[Candidate], facts: Facts) -> list[Candidate]:
    """Return the candidates; systems in the table of experience take each other's places, the best one first."""
    accuracy = expected(facts)
    known = iter(sorted((each for each in candidates if each.name in accuracy), key=lambda each: -accuracy[each.name]))
    return [next(known) if each.name in accuracy else each for each in candidates]


def frozen(name: str) -> Candidate:
    """Return a linear system on a frozen encoder."""
    return Candidate(name=name, system=System(view=ENCODED))


def baseline() -> Candidate:
    """Return the linear SVM whose settings are searched."""
    return Candidate(name="tfidf_svm", system=System(view=TOKENS))


def fastest() -> Candidate:
    """Return the linear SVM with given settings."""
    return Candidate(name="tfidf_svm", system=System(view=TOKENS, model=GIVEN))


def _network(facts: Facts) -> Candidate:
    """Return a network that needs no encoder."""
    system = System(view=TOKENS, train={"epochs": 8, "batch_size": 64})
    return Candidate(name="textcnn", system=system).with_shared(facts)


def fine_tuned(facts: Facts) -> list[Candidate]:
    """Return the fine-tuned encoder with each learning rate, the best one by experience first."""
    assert facts.checkpoint is not None
    settings: dict[str, Any] = {"epochs": 4, "batch_size": BATCH}
    if is_sentence_encoder(facts.checkpoint):
        rates, settings = POOLED_RATES, settings | {"min_steps": POOLED_MIN_STEPS}
        system = System(view=ENCODED, recipe="bert", train=settings)
    else:
        rates = RATES
        settings |= {"min_steps": MIN_STEPS, "layer_decay": LAYER_DECAY, "fitted_head": True}
        system = System(view=ENCODED, recipe="bert", head=HEAD, train=settings)
    found = [Candidate(name="fine_tuned", system=system).with_train(learning_rate=rate) for rate in rates]
    named = [found[0], *(each.renamed(f"fine_tuned_{rate:g}") for each, rate in zip(found[1:], rates[1:], strict=True))]
    return [each.with_shared(facts) for each in named]
