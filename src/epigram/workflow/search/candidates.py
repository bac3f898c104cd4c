"""Systems that a search considers, by what is known of the data and which encoders are installed.

The rules were made on agnews_43k, nlpcc2017, dbpedia_small, sst5 and 20newsgroups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from epigram.checkpoints.folders import is_sentence_encoder
from epigram.evaluation.settings import ExamineSettings
from epigram.models.settings import System
from epigram.text.dataset.language import Language
from epigram.text.settings import NO_TAGGER
from epigram.workflow.search.goal import Quality

ENCODED, TOKENS = "sentences", "token"  # views of the pretrained encoder and of training from scratch
BATCH, MIN_STEPS = 32, 60  # settings of fine-tuning; with few rows, epochs alone have too few steps
RATES = (2e-4, 1e-4, 5e-5, 4e-4)  # learning rates of fine-tuning, the first one without a search
# settings of an encoder with layers: the head starts from a regression, and lower layers learn more slowly
HEAD: dict[str, Any] = {"pool": "mean", "layers": 4, "dropout": 0.0}
LAYER_DECAY = 0.8
POOLED_MIN_STEPS, POOLED_RATES = 200, (5e-5, 2e-5, 1e-4, 2e-4)  # an encoder without layers, with a new head
FEW_ROWS = 1_000  # rows up to which an encoder is trained on pairs of texts
PAIRS: dict[str, Any] = {"epochs": 1, "batch_size": 16, "min_steps": 40}  # training on pairs
LENGTH, SHORTER = 128, (64, 32)  # tokens that a system reads of a text by default, and a frozen one if time is short
# settings of `train` that determine the steps and the evaluations of a system without such settings of its own
SHARED = {"min_steps", "evaluations", "evaluation_steps"}
SCRATCH_ROWS = 2_000  # rows from which a network without pretraining is tried
CHARACTERS, MAX_ALPHABET = [2, 3, 4, 5], 6_000  # n-grams of characters; with more characters, keys exceed 64 bits


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The data of a run: its language, rows of each split, folds of train, and a checkpoint of the language, if any.

    `tokens` is the mean number of tokens of a training text that a system on the checkpoint reads, for each maximum.
    `alphabet` is the number of characters of which the words consist, if they are counted. `shared` is the section
    `train` of params.yaml, and `examined` the number of training texts that `examine` judges at most.
    """

    language: Language
    train: int
    dev: int
    test: int
    folds: int
    checkpoint: str | None
    classes: int = 2
    tokens: Mapping[int, float] = field(default_factory=dict)
    alphabet: int = 0
    shared: Mapping[str, Any] = field(default_factory=dict)
    examined: int = ExamineSettings.rows

    @property
    def trainings(self) -> int:
        """Number of trainings of a system: one for each fold, and the final one."""
        return self.folds + 1

    def share(self, length: int | None) -> float:
        """Return the share of tokens that are left if a system on the checkpoint reads at most `length` of a text."""
        longest = max(self.tokens.values(), default=0.0)
        return self.tokens[length] / longest if longest and length is not None else 1.0

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
    def shortened(self) -> int | None:
        """Maximum tokens of a text, if the system has a limit of its own."""
        length: int | None = self.system.train.get("max_length")
        return length

    @property
    def counts_ngrams(self) -> bool:
        """Whether the system counts n-grams of words and characters."""
        return self.name in {"tfidf_svm", "hybrid_linear"}

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


# No candidate reads parts of speech, and jieba takes 10 s to tag 500 Chinese texts.
POS_TABLE = {"tagger": NO_TAGGER}


def views(facts: Facts) -> dict[str, dict[str, Any]]:
    """Return the views that the candidates read; the linear SVM also counts the characters of English words."""
    characters = {"characters": True} if facts.language == "en" else {}
    found: dict[str, dict[str, Any]] = {TOKENS: {"tokenizer": "token", **characters}}
    if facts.checkpoint:
        found[ENCODED] = {"tokenizer": "wordpiece", "checkpoint": facts.checkpoint}
    return found


def closed_form(facts: Facts) -> list[Candidate]:
    """Return the systems that are fitted without gradient descent, in the order in which they are trained."""
    return [linear(facts)[0], *frozen(facts)]


def frozen(facts: Facts) -> list[Candidate]:
    """Return the linear systems on a frozen encoder, the better one first."""
    names = ("hybrid_linear", "embedding_linear") if facts.checkpoint else ()
    return [Candidate(name=name, system=System(view=ENCODED)) for name in names]


def contrastive(facts: Facts, quality: Quality) -> list[Candidate]:
    """Return a linear system on an encoder that is first trained on pairs of texts, if the rows are few."""
    if quality == "fast" or facts.checkpoint is None or facts.train > FEW_ROWS:
        return []
    return [Candidate(name="setfit", system=System(view=ENCODED, train=PAIRS))]


def linear(facts: Facts) -> list[Candidate]:
    """Return the variants of the linear SVM, the slowest first: a search for its settings, and given settings.

    For English, given settings with n-grams of characters are between them.
    """
    given = {"orders": [1, 2], "characters": [], "sublinear": True, "weighting": "tfidf", "penalty": 1.0}
    spelled = {**given, "characters": CHARACTERS, "weighting": "naive_bayes"}
    models: list[dict[str, Any]] = [{}, *([spelled] if 0 < facts.alphabet <= MAX_ALPHABET else []), given]
    return [Candidate(name="tfidf_svm", system=System(view=TOKENS, model=model)) for model in models]


def trained(facts: Facts, quality: Quality) -> list[Candidate]:
    """Return the variants of the systems that are trained by gradient descent; `best` tries more than one rate.

    Without a test split it does not, because the trials would choose by rows whose out-of-fold predictions are scored.
    """
    if quality == "fast":
        return []
    if facts.checkpoint is None:
        network = Candidate(name="textcnn", system=System(view=TOKENS, train={"epochs": 8, "batch_size": 64}))
        network = network.with_shared(facts)
        return [network] if facts.train >= SCRATCH_ROWS else []
    base, rates = fine_tuned(has_layers=not is_sentence_encoder(facts.checkpoint))
    tried = rates if quality == "best" and facts.test else rates[:1]
    return [base.with_train(learning_rate=rate).with_shared(facts) for rate in tried]


def fine_tuned(*, has_layers: bool) -> tuple[Candidate, tuple[float, ...]]:
    """Return a fine-tuned encoder, and the learning rates to try."""
    settings: dict[str, Any] = {"epochs": 4, "batch_size": BATCH}
    if not has_layers:
        system = System(view=ENCODED, recipe="bert", train={**settings, "min_steps": POOLED_MIN_STEPS})
        return Candidate(name="fine_tuned", system=system), POOLED_RATES
    settings |= {"min_steps": MIN_STEPS, "layer_decay": LAYER_DECAY, "fitted_head": True}
    return Candidate(name="fine_tuned", system=System(view=ENCODED, recipe="bert", head=HEAD, train=settings)), RATES
