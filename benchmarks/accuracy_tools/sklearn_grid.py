"""scikit-learn: grid search over TF-IDF of words and characters, and over linear classifiers with their C."""

from __future__ import annotations

from typing import Any

from benchmarks.accuracy_tools.task import Task, finish, read_task, without_spaces, words_of

SHARE = 0.8  # of the budget, for the search; the rest is for the final fit
RATES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
FEATURES = (  # in order of worth: n-grams, and whether term frequencies are logarithmic
    (("words", "characters"), True),
    (("words",), True),
    (("characters",), True),
    (("words", "characters"), False),
    (("words",), False),
    (("characters",), False),
)


def vectorizer(kind: str, language: str, sublinear: bool) -> Any:
    """Return TF-IDF of word n-grams, or of character n-grams; Chinese texts have spaces between their words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if kind == "words":
        pattern = r"(?u)\b\w+\b" if language == "en" else r"(?u)\S+"
        return TfidfVectorizer(ngram_range=(1, 2), token_pattern=pattern, sublinear_tf=sublinear)
    if language == "en":
        return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=sublinear)
    return TfidfVectorizer(analyzer="char", ngram_range=(1, 3), preprocessor=without_spaces, sublinear_tf=sublinear)


def search(task: Task, texts: list[str], kinds: tuple[str, ...], sublinear: bool) -> Any:
    """Return a fitted search over the classifiers and their C, by a cross-validation of five folds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.svm import LinearSVC

    parts = [(kind, vectorizer(kind, task.terms.language, sublinear)) for kind in kinds]
    pipeline = Pipeline([("features", FeatureUnion(parts)), ("classifier", LinearSVC())], memory="cache")
    classifiers = [LinearSVC(C=c) for c in RATES] + [LogisticRegression(C=10 * c, max_iter=1000) for c in RATES]
    grid = GridSearchCV(pipeline, {"classifier": classifiers}, cv=5, n_jobs=task.terms.threads, refit=False)
    return grid.fit(texts, task.labels)


def main() -> None:
    """Search until the time for it is used, fit the best pipeline to all texts, and predict."""
    task = read_task()
    prepare = words_of if task.terms.language == "zh" else str
    texts, tests = list(map(prepare, task.texts)), list(map(prepare, task.tests))
    best: Any = None
    took, tried = 0.0, 0
    for kinds, sublinear in FEATURES:
        before = task.terms.used
        if tried and task.terms.left(SHARE) < took:
            break
        grid = search(task, texts, kinds, sublinear)
        took, tried = task.terms.used - before, tried + 1
        if best is None or grid.best_score_ > best[0].best_score_:
            best = grid, kinds, sublinear
    grid, kinds, sublinear = best
    pipeline = grid.estimator.set_params(**grid.best_params_).fit(texts, task.labels)
    fitted = task.terms.used
    settings = (
        f"{'+'.join(kinds)}, sublinear {sublinear}, {grid.best_params_['classifier']}, {tried} of {len(FEATURES)}"
    )
    finish(pipeline.predict(tests).tolist(), fitted=fitted, settings=settings, packages=["scikit-learn", "jieba"])


if __name__ == "__main__":
    main()
