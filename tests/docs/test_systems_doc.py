"""Examples of docs/systems.md and docs/development.md: settings, combinations of layers, a new system and column."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest
import torch
import yaml

from epigram.core.arrays import Ragged
from epigram.core.config_types import validate_as
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus
from epigram.inference.attention import AttentionMaps
from epigram.models.batches import TextBatches
from epigram.models.predict import predict
from epigram.models.serialization import load, save
from epigram.models.text_template import TextTemplate
from epigram.nn import heads
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES, recipe_of
from epigram.report import columns
from epigram.runner.workspace.settings import Settings
from epigram.text.prompts.prompts import mask_counts
from epigram.training.config import configure
from epigram.training.loop.trainer import Trainer
from epigram.training.objectives.label_objective import label_objective
from epigram.training.preflight import check_systems
from tests.support.evaluation_samples import cost, system
from tests.support.saved_systems import saved

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs/systems.md").read_text(encoding="utf-8")
OWN_ENCODER = (ROOT / "docs/howto/own_encoder.md").read_text(encoding="utf-8")
DEVELOPMENT = (ROOT / "docs/development.md").read_text(encoding="utf-8")
SYSTEMS = sorted(RECIPES)


def blocks(language: str, page: str = DOC) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def settings_of(block: str) -> Settings:
    """Return params.yaml with the sections of the block, without checkpoints, which are not available here."""
    values = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    told = yaml.safe_load(block)
    views = values["views"] | {name: {**view, "checkpoint": None} for name, view in told.pop("views", {}).items()}
    return validate_as(Settings, values | told | {"views": views})


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_is_spoken_of(name: str) -> None:
    assert f"`{name}`" in DOC


def test_every_family_has_its_paragraph_and_no_system_stands_in_two() -> None:
    families = [re.findall(r"`(\w+)`", heading) for heading in re.findall(r"^### (.*)$", DOC, re.MULTILINE)]
    assert sorted(name for family in families for name in family) == SYSTEMS


@pytest.mark.parametrize("block", [*blocks("yaml"), *blocks("yaml", OWN_ENCODER)])
def test_a_combination_is_allowed_and_its_systems_build(block: str) -> None:
    settings = settings_of(block)
    check_systems(
        settings.views,
        settings.systems,
        settings.train,
        masks=mask_counts(settings.augment.template),
    )
    for name in yaml.safe_load(block)["systems"]:
        system = settings.systems[name]
        view = settings.views[system.view]
        context = DataSpec(
            vocabulary=50,
            classes=2,
            max_length=24,
            labels=("no", "yes"),
            token_labels=("O", "X"),
            characters=9 if view.characters else 0,
            mask_id=4 if view.prompt else None,
            prefix_ids=(2, 5, 4, 6, 4) if view.prompt else (),
            pos_weight=torch.ones(50),
        )
        model: Any = recipe_of(name, system).build(context)
        for setting, value in system.head.items():
            if setting != "kind":
                assert getattr(model.head.config, setting) == value


@pytest.fixture
def example() -> Iterator[str]:
    """Register the new system of the page during the test; yield its name."""
    code = next(block for block in blocks("python", DEVELOPMENT) if "class GatedHead" in block)
    assert len(code.splitlines()) < 60
    before = set(RECIPES)
    module = ModuleType("example")
    sys.modules["example"] = module
    try:
        exec(code, module.__dict__)
        (name,) = set(RECIPES) - before
        yield name
        del RECIPES[name]
    finally:
        heads.KINDS._parts.pop("gated", None)
        del sys.modules["example"]


def test_the_new_system_learns_saves_and_reloads(example: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    labels = np.arange(48) % 3
    rows = [np.where(random.random(9) < 0.5, 20 + 10 * y + random.integers(0, 9), 7) for y in labels]
    texts = TextBatches(
        Ragged(np.concatenate(rows), np.arange(0, 9 * 48 + 1, 9)), prefix=[], suffix=[], max_length=16, pad_id=0,
        unk_id=1, labels=labels,
    )  # fmt: skip
    recipe = RECIPES[example].changed(encoder={"embedding": 16, "filters": 12}, head={}, train={"batch_size": 16})
    model: Any = recipe.build(DataSpec(vocabulary=60, classes=3, max_length=16))
    config = replace(configure(example, recipe), learning_rate=0.01)
    assert config.epochs == 10
    Trainer(model, label_objective(texts, texts, config), seed=0).run()
    assert predict(model, texts).score(labels) > 0.9

    frame = TextTemplate(
        language="en", max_length=16, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None, vocabulary=60
    )
    (tmp_path / "tokenizer.json").write_text("{}")
    save(
        tmp_path / "model", model, recipe=recipe, frame=frame, labels=["a", "b", "c"],
        tokenizer=tmp_path / "tokenizer.json", facts={},
    )  # fmt: skip
    np.testing.assert_array_equal(predict(load(tmp_path / "model").model, texts).logits, predict(model, texts).logits)


def test_the_new_system_stands_in_params_yaml_like_any_other(example: str) -> None:
    settings = settings_of(f"systems: {{{example}: {{view: token, head: {{dropout: 0.5}}}}}}")
    check_systems(settings.views, settings.systems, settings.train)


def test_the_column_of_the_example_is_in_the_tables_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    code = next(block for block in blocks("python", DEVELOPMENT) if "@column" in block)
    monkeypatch.setattr(columns, "COLUMNS", [*columns.COLUMNS])
    exec(code, dict(vars(columns)))
    systems = [system("cnn", [{1}], [{2}], price=cost(depth=4))]
    summary = compare(
        Corpus(name="x", language="en", task="single", labels=[], rows={"test": 1}, notes=[]), systems, 0.05
    )
    cells = {
        where: {heading.text: cell.text for heading, cell in zip(table.headings, table.lines[0].cells, strict=True)}
        for where in get_args(columns.Where)
        for table in [columns.comparison(summary, where)]
    }
    assert {where: shown.get("layers") for where, shown in cells.items()} == {
        "page": "4", "file": "4", "speed": None, "terminal": None, "dashboard": None,
    }  # fmt: skip


def test_what_the_library_is_asked_for_is_there() -> None:
    codes = re.findall(r"```python\n(.*?)```", (ROOT / "docs/export.md").read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (each for each in codes if "AutoModelForSequenceClassification" in each)
    exec("\n".join(line for line in code.splitlines() if "import" in line), {})
    assert "runs/latest/model" in code


@pytest.mark.parametrize("path", re.findall(r"`((?:src|docs)/[\w/.]*)`", DOC))
def test_every_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_attention_maps_of_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *_, code = blocks("python")
    exec(code.replace("runs/latest/model", str(saved("cnle", tmp_path))), {})
    assert capsys.readouterr().out.startswith("['a', 'text'] ['a', 'b', 'c'] [")


def test_the_fields_of_the_attention_maps_are_those_of_the_table() -> None:
    section = DOC.partition("## Attention maps")[2]
    rows = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    assert re.findall(r"`(\w+)`", " ".join(rows)) == [field.name for field in fields(AttentionMaps)]
