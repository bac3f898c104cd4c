"""evaluate: score the final models; the only stage that reads the test set.

python -m epigram.stages.evaluate SYSTEM VALIDATED ENCODED PRUNED OUT

The measured speed varies from run to run, so it is written outside OUT, to data/speed/SYSTEM.json, with the hash of the
model's manifest. The hash shows which model was timed: when DVC restores OUT from its cache, the file is not updated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.errors import DataError
from epigram.core.files import sha256, write_json
from epigram.core.settings import Params
from epigram.evaluation.settings import EvaluateSettings
from epigram.process.display import echo
from epigram.process.exits import handle_errors
from epigram.process.stage_process import arguments, run_stage

if TYPE_CHECKING:
    import polars as pl

    from epigram.evaluation.splits import GoldSplit
    from epigram.evaluation.tokens.word_predictions import Words
    from epigram.text.dataset.encoded_dataset import View
    from epigram.text.dataset.validated_corpus import ValidatedCorpus

PARAMS = ("seeds", "evaluate")


def load_split(view: View, corpus: ValidatedCorpus, name: str) -> GoldSplit:
    """Return the labels and texts of one split, in the order of the view's rows."""
    import numpy as np

    from epigram.evaluation.splits import GoldSplit

    part, columns = view.split(name), ["tokens", "token_labels"] if view.token_labels else []
    rows = corpus.frame_of(name, np.array(part.rows), "text", *columns)
    return GoldSplit(
        labels=np.array(part.labels, dtype=np.int64),
        rows=np.array(part.rows),
        texts=rows["text"].to_list(),
        in_train=np.zeros(len(part), np.bool_) if part.in_train is None else np.array(part.in_train),
        words=load_words(rows, view, corpus.folder / f"{name}.parquet") if view.token_labels else None,
        folds=view.fold_numbers() if name == "train" else None,
    )


def load_words(rows: pl.DataFrame, view: View, path: Path) -> Words:
    """Return all words of the rows with their labels, including words that truncation removes.

    Raises DataError for a token label that is not in the view.
    """
    import numpy as np
    import polars as pl

    from epigram.core.arrays import Ragged
    from epigram.evaluation.tokens.word_predictions import Words

    labels = rows["token_labels"].fill_null([])
    flat = labels.explode(empty_as_null=False)
    numbers = flat.replace_strict(
        view.token_labels, list(range(len(view.token_labels))), default=None, return_dtype=pl.Int64
    )
    if numbers.null_count():
        unknown = flat.filter(numbers.is_null())[0]
        raise DataError(f"{path}: token label {unknown!r} is not in the view {view.view}: run dvc repro")
    return Words(
        names=view.token_labels,
        labels=Ragged.from_lengths(
            numbers.to_numpy().astype(np.min_scalar_type(len(view.token_labels) - 1)), labels.list.len().to_numpy()
        ),
        texts=rows["tokens"].fill_null([]).to_list(),
        separator="" if view.language == "zh" else " ",
    )


@handle_errors
def main() -> None:
    """Read the settings, predict dev and test with the model of every seed, and write the scores."""
    import numpy as np

    from epigram.evaluation.evaluate_system import evaluate_system
    from epigram.evaluation.records.results import write_evaluation
    from epigram.evaluation.splits import Target
    from epigram.inference.predictors.measure import combine_seeds, measure, milliseconds_per_text
    from epigram.text.dataset.encoded_dataset import View
    from epigram.text.dataset.validated_corpus import ValidatedCorpus

    name, validated, encoded, pruned, out = arguments("SYSTEM", "VALIDATED", "ENCODED", "PRUNED", "OUT")
    params = Params.read(PARAMS)
    seeds, settings = params.seeds, params.section("evaluate", EvaluateSettings)
    view, corpus = View.load(Path(encoded)), ValidatedCorpus.read(Path(validated))
    dev, test = (load_split(view, corpus, split) for split in (view.choosing, view.scoring))
    models = [Path(pruned) / f"seed-{seed}" for seed in seeds]
    measured = [measure(model, view) for model in models]
    evaluation = evaluate_system(
        name,
        Target(
            task="multi" if view.task == "multi" else "single",
            labels=view.labels,
            tokens_only=view.tokens_only,
            plain=measured[0].plain,
        ),
        seeds=seeds,
        dev=dev,
        test=test,
        dev_output=combine_seeds([m.dev for m in measured], view.split(view.choosing), dev.words),
        test_output=combine_seeds([m.test for m in measured], view.split(view.scoring), test.words),
        costs=[m.cost for m in measured],
        alone=[m.alone for m in measured],
        temperatures=[m.temperature for m in measured],
        decision=measured[0].decision,
        thresholds=np.array([m.thresholds for m in measured]),
        settings=settings,
    )
    write_evaluation(Path(out), evaluation)
    speed = {
        "ms_per_text": milliseconds_per_text(models[0], dev.texts, settings.timing_texts),
        "texts_per_second": measured[0].texts_per_second,
        "model": sha256(models[0] / "manifest.json"),
    }
    write_json(Path("data/speed") / f"{name}.json", speed)
    scores = evaluation.metrics
    held_out = f"{view.folds} folds" if view.folds else "dev"
    scored = "" if view.scoring == view.choosing else f", test {100 * scores.test_score.value:.1f}"
    echo(f"{name}: {held_out} {100 * scores.dev_score.value:.1f}{scored}")


if __name__ == "__main__":
    run_stage(main)
