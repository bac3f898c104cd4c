"""Repository of shop reviews whose pipeline is one or two quick stages, and generated new reviews."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tests.support.certain import COMPARED
from tests.support.toy import add_flows

# All stages of the project in one process, with the views and systems of params.yaml: the tests cover what happens
# around the stages.
EVERYTHING = """
import importlib, sys
from pathlib import Path

import yaml

dataset = sys.argv[1]
params = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
views = [{"view": name} for name in params["views"]]
systems = [{"system": name, "view": each["view"]} for name, each in params["systems"].items()]
for line in Path("stages.txt").read_text().splitlines():
    for names in systems if "{system}" in line else views if "{view}" in line else [{}]:
        name, *arguments = line.format(dataset=dataset, **names).split()
        sys.argv = [name, *arguments]
        importlib.import_module(f"epigram.stages.{name}").main()
"""
STAGES = """\
download data/sources/{dataset}.yaml data/raw
validate data/raw data/validated
pos_table data/validated data/pos_versions data/pos
augment data/validated data/augmented
encode {view} data/validated data/augmented data/pos data/encoded/{view}
pretrain {view} data/encoded/{view} data/pretrained/{view}
train {system} data/encoded/{view} data/pretrained/{view} data/models/{system}
prune {system} data/encoded/{view} data/models/{system} data/pruned/{system}
evaluate {system} data/validated data/encoded/{view} data/pruned/{system} data/evaluated/{system}
examine data/validated data/examined
ensemble data/validated data/evaluated data/pruned data/ensemble
compare COMPARED data/compared
""".replace("COMPARED", " ".join(f"data/{name}" for name in COMPARED))
DVC_YAML = """
stages:
  everything:
    cmd: python everything.py ${dataset}
    params: [seeds, systems, views]
    deps: [everything.py, stages.txt, "data/sources/${dataset}.yaml", data/local]
    outs:
      - data/raw
      - data/validated
      - data/examined
      - data/pos
      - data/augmented
      - data/encoded
      - data/pretrained
      - data/models
      - data/pruned
      - data/evaluated
      - data/ensemble
      - data/compared
artifacts:
  champion: {path: data/compared/chosen, type: model}
"""
PARAMS = """\
dataset: shop
seeds: [0]
views: {token: {tokenizer: token}}
systems: {tfidf_svm: {view: token}}
evaluate: {resamples: 200, timing_texts: 4}
retrain: {margin: 0.2}
"""
# A search runs the stages up to data/raw before it trains anything.
TWO_STAGES = {
    "params.yaml": PARAMS + "download: {tries: 1}\n",
    "stages.txt": STAGES.partition("\n")[2],
    "dvc.yaml": DVC_YAML.replace("      - data/raw\n", "")
    .replace('"data/sources/${dataset}.yaml", data/local', "data/raw")
    .replace(
        "stages:\n",
        """\
stages:
  download:
    cmd: python -m epigram.stages.download data/sources/${dataset}.yaml data/raw
    params: [download]
    deps: ["data/sources/${dataset}.yaml", data/local]
    outs: [data/raw]
""",
    ),
}
SOURCE = """\
name: shop
about: a few texts
language: en
task: single
licence: none
files: [{path: shop.csv, local: data/local/shop.csv}]
read: {reader: csv, text: review, label: stars}
labels: [bad, good]
"""
FILES = {
    "dvc.yaml": DVC_YAML,
    "params.yaml": PARAMS,
    "everything.py": EVERYTHING,
    "stages.txt": STAGES,
    "data/sources/shop.yaml": SOURCE,
    "data/local/.gitkeep": "",
    ".dvcignore": "/data/local/incoming\n/data/local/database\n",
    ".gitignore": "runs\n.epigram\n__pycache__\n/data/*\n!/data/sources/\n!/data/local/\n/data/local/*\n!*/.gitkeep\n",
}
WORDS = {
    "plain": {"bad": ["awful", "dull", "rotten", "nasty"], "good": ["lovely", "bright", "tasty", "superb"]},
    "slang": {"bad": ["meh", "cringe", "wack", "trash"], "good": ["lit", "fire", "goat", "bussin"]},
}
FILLER = ["the", "room", "food", "was", "we", "staff", "with", "very", "at", "our", "film", "night", "table", "it"]


def reviews(number: int, kind: str, seed: int) -> pl.DataFrame:
    """Return short reviews, half of them positive."""
    chance = np.random.default_rng(seed)
    rows = []
    for row in range(number):
        label = ("bad", "good")[row % 2]
        words = [*chance.choice(FILLER, 6), chance.choice(WORDS[kind][label]), *chance.choice(FILLER, 3)]
        rows.append({"review": " ".join(words), "stars": label})
    return pl.DataFrame(rows)


def lay_out(root: Path, env: Mapping[str, str], **more: str) -> None:
    """Write the repository and commit it; `more` maps paths to further files."""
    for name, text in {**FILES, **more}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    add_flows(root)
    reviews(160, "plain", seed=0).write_csv(root / "data" / "local" / "shop.csv")
    for command in (
        "git init --quiet",
        "dvc init --quiet",
        "git add --all",
        "git -c user.name=t -c user.email=t@t commit --quiet -m shop",
    ):
        subprocess.run(command.split(), cwd=root, env=env, check=True, capture_output=True)
