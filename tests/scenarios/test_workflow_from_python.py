"""All steps of a run from Python in one process: no params.yaml, DVC or Prefect, and no file outside the given folders.

The texts are chosen so that the results are known: one word of each text sets its class.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
from pathlib import Path

from epigram.data.validation.settings import ValidateSettings
from epigram.evaluation.settings import CompareSettings, EnsembleSettings, EvaluateSettings, ExamineSettings
from epigram.models.settings import System
from epigram.pruning.settings import PruneSettings
from epigram.text.settings import AugmentSettings, EncodeSettings, PosTableSettings, PretrainSettings, ViewSettings
from epigram.workflow.augment import write_prompt
from epigram.workflow.compare import compare_systems
from epigram.workflow.encode import encode_view
from epigram.workflow.ensemble import combine_systems
from epigram.workflow.evaluate import evaluate_models
from epigram.workflow.examine import examine_corpus
from epigram.workflow.pos_table import write_pos_table
from epigram.workflow.pretrain import pretrain_view
from epigram.workflow.prune import prune_system
from epigram.workflow.train import checked_setup, train_system
from epigram.workflow.validate import validate_corpus

SIZES = {"width": 8, "heads": 2, "hidden": 8, "depth": 2}
SYSTEMS = {
    "tfidf_svm": System(view="v"),
    "network": System(view="v", recipe="transformer", encoder=SIZES, train={"epochs": 2, "min_steps": 0}),
}
SEEDS = [0, 1]
at = Path(sys.argv[1]).joinpath
view = ViewSettings(pretrain=PretrainSettings(**SIZES, epochs=1))
validate_corpus(ValidateSettings(folds=0), "auto", at("raw"), at("validated"))
examine_corpus(ExamineSettings(), at("validated"), at("examined"))
write_pos_table(PosTableSettings(), at("validated"), at("versions"), at("pos"))
write_prompt(AugmentSettings(), at("validated"), at("augmented"))
encode_view("v", view, EncodeSettings(), at("validated"), at("augmented"), at("pos"), at("encoded"))
pretrain_view("v", view.pretrain, at("encoded"), at("pretrained"), state=at("state/pretrain/v"))
for name, system in SYSTEMS.items():
    setup, warnings = checked_setup(name, system, {}, "auto", at("encoded"), at("pretrained"))
    models, pruned, evaluated = at("models", name), at("pruned", name), at("evaluated", name)
    train_system(system, setup, SEEDS, models, warnings=warnings, state=at("state/train", name))
    prune_system(name, PruneSettings(), "auto", SEEDS, at("encoded"), models, pruned, state=at("state/prune", name))
    folders = at("validated"), at("encoded"), pruned, evaluated
    evaluate_models(name, EvaluateSettings(timing_texts=2), "auto", SEEDS, *folders, speed=at("speed"))
folders = at("validated"), at("evaluated"), at("pruned"), at("ensemble")
combine_systems(list(SYSTEMS), EnsembleSettings(), EvaluateSettings(), *folders, speed=at("speed"))
folders = [at(name) for name in ("validated", "examined", "evaluated", "ensemble", "pruned", "compared")]
compare_systems({name: vars(system) for name, system in SYSTEMS.items()}, CompareSettings(), *folders)
loaded = {name.partition(".")[0] for name in sys.modules} & {"dvc", "prefect"}
at("loaded.json").write_text(json.dumps([*loaded, *(name for name in sys.modules if name == "epigram.runner")]))
"""


def test_a_run_from_python_writes_only_to_the_folders_that_it_is_given(tmp_path: Path) -> None:
    raw, elsewhere = tmp_path / "work/raw", tmp_path / "elsewhere"
    raw.mkdir(parents=True)
    elsewhere.mkdir()
    words = {"good": ("great", "fine", "lovely"), "bad": ("dull", "awful", "weak")}
    rows = [(f"a {words[label][n % 3]} film number {n}", label) for n in range(60) for label in words]
    (raw / "toy.jsonl").write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    about = {"name": "toy", "about": "a toy", "language": "en", "task": "single", "licence": "none"}
    how = {"labels": ["bad", "good"], "files": [{"path": "toy.jsonl", "local": "toy"}], "read": {"reader": "jsonl"}}
    (raw / "source.json").write_text(json.dumps(about | how))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "work")]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "work/loaded.json").read_text()) == []
    assert list(elsewhere.iterdir()) == []
    summary = json.loads((tmp_path / "work/compared/summary.json").read_text())
    assert {row["system"] for row in summary["rows"]} >= {"tfidf_svm", "network"}
    svm = next(row for row in summary["rows"] if row["system"] == "tfidf_svm")
    assert svm["test_accuracy"] == 1.0
    assert (tmp_path / "work/compared/chosen/config.json").is_file()
    weights = [(tmp_path / f"work/models/network/seed-{seed}/model.safetensors").read_bytes() for seed in (0, 1)]
    assert weights[0] != weights[1]
    speeds = {file.stem for file in (tmp_path / "work/speed").iterdir()}
    assert {"tfidf_svm", "network"} <= speeds
