"""AutoGluon's TabularPredictor: an ensemble of tree models on n-grams of the text column."""

from __future__ import annotations

from benchmarks.accuracy_tools.task import finish, read_task, words_of

SHARE = 0.9  # of the budget, for the fit, which may end late


def main() -> None:
    """Fit within the budget and predict; Chinese texts have spaces between their words."""
    import pandas
    from autogluon.tabular import TabularPredictor

    task = read_task()
    prepare = words_of if task.terms.language == "zh" else str
    train = pandas.DataFrame({"text": list(map(prepare, task.texts)), "label": task.labels})
    predictor = TabularPredictor(label="label", eval_metric="accuracy", path="model", verbosity=1)
    predictor.fit(
        train, presets="best_quality", time_limit=task.terms.left(SHARE), num_cpus=task.terms.threads, num_gpus=0
    )
    fitted = task.terms.used
    predicted = predictor.predict(pandas.DataFrame({"text": list(map(prepare, task.tests))}))
    finish(
        [str(label) for label in predicted],
        fitted=fitted,
        settings=f"best_quality, {len(predictor.model_names())} models, best {predictor.model_best}",
        packages=["autogluon.tabular", "lightgbm", "catboost", "xgboost-cpu", "scikit-learn"],
    )


if __name__ == "__main__":
    main()
