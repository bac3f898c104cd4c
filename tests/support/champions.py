"""Champions of the toy project, for the tests of promotion and rollback."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256

from epigram.runner.champions import champion, champion_refs
from epigram.runner.champions.champion import Champion, Hashes
from tests.support.toy import Toy


def model_files(number: int) -> dict[str, str]:
    """Return the files of a model folder that the last stage writes."""
    weights = f"weights {number}"
    files = {"model.safetensors": weights, "config.json": "{}"}
    manifest = {"sha256": {name: sha256(text.encode()).hexdigest() for name, text in files.items()}}
    return {f"chosen/{name}": text for name, text in (files | {"manifest.json": json.dumps(manifest)}).items()}


def made(toy: Toy, number: int) -> Champion:
    """Run the pipeline, save the model, and return its record as champion."""
    toy.tell({"judge": {"files": model_files(number)}})
    text = (toy.root / "params.yaml").read_text()
    (toy.root / "params.yaml").write_text(text.replace("alpha: 0.05", f"alpha: 0.0{number}"))
    toy.shell("dvc", "repro", "--quiet")
    (toy.root / "params.yaml").write_text(text)
    chosen, run = toy.root / "out" / "judge" / "chosen", f"toy-{number}"
    shutil.copytree(chosen, toy.root / "runs" / run / "model")
    return Champion(
        run=run,
        dataset="toy",
        system="mlp",
        seed=0,
        score={"name": "accuracy", "value": 0.5, "low": 0.4, "high": 0.6},
        rows=10,
        verdict=f"better: {number}",
        hashes=Hashes(
            data=champion_refs.output_hash(toy.root, "out/gather"),
            code="unknown",
            params="0",
            model=champion.model_hash(chosen),
        ),
        model="out/judge/chosen",
    )


def promoted(toy: Toy, number: int) -> Champion:
    return champion.promote(toy.root, toy.root, made(toy, number), f'{{"known": {number}}}\n')


def weights(toy: Toy) -> str:
    return (toy.root / "runs" / "champion" / "model" / "model.safetensors").read_text()
