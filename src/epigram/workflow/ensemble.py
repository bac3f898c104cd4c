"""Ensemble of the evaluated systems, which is chosen by their predictions for the development set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.core.files import atomic_folder, read_json, sha256, write_json
from epigram.evaluation.comparison.formats import score_text
from epigram.evaluation.ensemble.build_ensemble import Combined, build
from epigram.evaluation.metrics.primary import recorded_metric
from epigram.evaluation.records.ensemble_record import ENSEMBLE, EnsembleRecord
from epigram.evaluation.records.results import SPLITS, Evaluated, SplitName, read_evaluation, write_files
from epigram.evaluation.records.student_record import read_students
from epigram.evaluation.settings import EnsembleSettings, EvaluateSettings
from epigram.evaluation.splits import GoldSplit
from epigram.evaluation.tokens.word_predictions import Words
from epigram.models import ensemble
from epigram.models.manifest import PROVENANCE, parameters_hash, read_provenance
from epigram.process.display import echo
from epigram.text.dataset.text_matching import loose_text
from epigram.text.dataset.validated_corpus import ValidatedCorpus


def combine_systems(
    names: Sequence[str],
    settings: EnsembleSettings,
    evaluate: EvaluateSettings,
    validated: Path,
    evaluated: Path,
    pruned: Path,
    out: Path,
    *,
    speed: Path,
) -> None:
    """Select members among the systems `names`, and write the ensemble to `out`, atomically.

    `out` has ensemble.json (members and weights, or the reason why there is no ensemble), metrics.json and
    predictions.safetensors as of an evaluated system, and a model folder for each seed. The folder `speed` has the
    measured speed of systems, and gets the speed of the ensemble.
    """
    if not names:
        raise ParameterError("params.yaml: systems is empty; expected at least one system")
    corpus = ValidatedCorpus.read(validated)
    unranked = {name for name, student in read_students(pruned, names).items() if student.unranked}
    ranked = [name for name in names if name not in unranked]
    systems = [read_evaluation(evaluated / name) for name in ranked] if settings.enabled else []
    splits = [evaluated_split(systems[0], corpus, split) for split in SPLITS] if systems else []
    combined = build(systems, splits, settings, evaluate)
    _write(out, combined, pruned)
    if combined.evaluation is None:
        echo(f"no ensemble: {combined.record.reason}")
        return
    metrics = combined.evaluation.metrics
    _write_speed(combined.record, out, pruned, metrics.seeds[0].seed, speed)
    members = ", ".join(f"{each.system} {each.weight:.2f}" for each in combined.record.members)
    on_dev, on_test = (score_text(metrics.score, each.value) for each in (metrics.dev_score, metrics.test_score))
    echo(f"ensemble of {members}: dev {on_dev}, test {on_test}")


def evaluated_split(evaluation: Evaluated, corpus: ValidatedCorpus, name: SplitName) -> GoldSplit:
    """Return the labels and texts of the rows of a split that were evaluated, in their order."""
    known = evaluation.split(name)
    split = name if known.folds is None else "train"
    columns = [*([] if split == "train" else ["in_train"]), *([] if known.words is None else ["tokens"])]
    found = corpus.frame_of(split, known.rows, "text", *columns)
    words = None
    if known.words is not None:
        texts, separator = found["tokens"].fill_null([]).to_list(), "" if corpus.language == "zh" else " "
        gold = Ragged(known.words.labels, known.words.offsets)
        words = Words(names=corpus.token_labels, labels=gold, texts=texts, separator=separator)
    in_train = found["in_train"].to_numpy() if "in_train" in found else np.zeros(len(known.rows), np.bool_)
    return GoldSplit(
        labels=known.labels,
        rows=known.rows,
        texts=found["text"].to_list(),
        in_train=in_train,
        words=words,
        folds=known.folds,
        columns=corpus.slice_values(split, known.rows),
        groups=found.select(loose_text()).to_series().rank("dense").to_numpy(),
    )


def _write(out: Path, combined: Combined, pruned: Path) -> None:
    """Write `out` atomically: the record and, if there is an ensemble, its evaluation and models."""
    with atomic_folder(out) as new:
        if combined.evaluation is not None:
            write_files(new, combined.evaluation)
            for number in range(len(combined.evaluation.metrics.seeds)):
                _write_model(new, combined, number, pruned)
        combined.record.write(new)


def _write_model(folder: Path, combined: Combined, number: int, pruned: Path) -> None:
    """Write the model folder of the seed at place `number`."""
    assert combined.evaluation is not None
    metrics, record = combined.evaluation.metrics, combined.record
    prices = recorded_metric(metrics).prices
    seed = metrics.seeds[number]
    weights = {each.system: each.weights[number] for each in record.members if each.weights[number]}
    folders = {name: pruned / name / f"seed-{seed.seed}" for name in weights}
    members = {name: read_provenance(each) for name, each in folders.items()}
    data = {"data": parameters_hash(**{name: each.get("data") for name, each in members.items()})}
    if len(rows := {each.get("rows", "") for each in members.values()}) == 1:
        data["rows"] = rows.pop()
    saved = ensemble.SavedEnsemble(
        folder=folder / f"seed-{seed.seed}",
        labels=metrics.labels,
        multi=metrics.task == "multi",
        weights=weights,
        temperature=record.temperatures[number],
        thresholds=seed.thresholds or [0.5] * len(metrics.labels),
        prices=None if prices is None else prices.tolist(),
    )
    ensemble.save(saved, ensemble.copy_members(folders), {PROVENANCE: data})


def _write_speed(record: EnsembleRecord, out: Path, pruned: Path, seed: int, speed: Path) -> None:
    """Write the speed of the first seed's ensemble, if the speed of each member was measured on this machine.

    The members predict one after another.
    """
    speeds: list[dict[str, Any]] = []
    for member in (each for each in record.members if each.weights[0]):
        file, manifest = speed / f"{member.system}.json", pruned / member.system / f"seed-{seed}" / "manifest.json"
        if not file.is_file() or (measured := read_json(file)).get("model") != sha256(manifest):
            return
        speeds.append(measured)
    times = {
        "ms_per_text": sum(each["ms_per_text"] for each in speeds),
        "texts_per_second": 1 / sum(1 / each["texts_per_second"] for each in speeds),
    }
    write_json(speed / f"{ENSEMBLE}.json", {**times, "model": sha256(out / f"seed-{seed}" / "manifest.json")})
