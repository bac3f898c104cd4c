"""The tables of docs/presets.md. `python -m tests.support.presets_page` writes them into the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epigram.models.recipe import ENCODERS, HEADS, Preset, Recipe, parse_part
from epigram.recipes.registry import PRESETS, RECIPES
from epigram.text.settings import ViewSettings
from epigram.training.check_system import unused_settings
from epigram.training.config import configure
from epigram.training.preflight import placeholder_spec

PAGE = Path(__file__).parents[2] / "docs/presets.md"
START = "<!-- generated: python -m tests.support.presets_page -->\n"
# of epigram rather than of a method
TECHNICAL = {
    *(
        "train.max_tokens",
        "train.min_steps",
        "train.layer_decay",
        "train.fitted_head",
        "train.class_weight",
        "train.label_smoothing",
        "train.focal_gamma",
        "train.evaluations",
        "train.rollbacks",
    ),
    *("train.precision", "train.threads", "train.processes"),
}
STRUCTURE = {  # what the recipe's name says, and switches for readings that differ from the paper
    *(
        "attention",
        "pos_weight",
        "head_to_head",
        "order",
        "mode",
        "fusion",
        "pool",
        "average",
        "soft",
        "learn_temperature",
    ),
    *("backbone", "small", "family", "absolute", "beam", "max_labels", "token_supervision", "stop_on"),
    *("sentence_weight", "token_weight"),
}


def values_of(recipe: Recipe) -> dict[str, Any]:
    """Return every setting of a recipe's parts and training: key → value."""
    parts = {
        "encoder": parse_part(ENCODERS, recipe.encoder, ""),
        "head": parse_part(HEADS, recipe.head, ""),
        "train": configure(recipe.name, recipe),
    }
    return {f"{part}.{key}": value for part, config in parts.items() for key, value in vars(config).items()}


def unused(recipe: Recipe) -> dict[str, str]:
    """Return the settings without effect on texts with one label and token labels: key → reason."""
    view = ViewSettings(prompt=recipe.view.endswith("prompt"), characters=True)
    context = placeholder_spec(view, multi=False, tokens=True)
    return unused_settings(recipe, configure(recipe.name, recipe), context)


def stated(preset: Preset) -> dict[str, Any]:
    """Return the settings of a preset: key → value."""
    parts = {"encoder": preset.encoder, "head": preset.head, "train": preset.train}
    return {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items()}


def shown(value: Any) -> str:
    """Return a value as in params.yaml."""
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", "")


def row(name: str) -> tuple[str, str, str]:
    """Return the cells of a system: values of the paper that differ from the defaults, equal ones, other defaults."""
    preset = PRESETS[name]
    recipe = RECIPES[name].starting_from("a checkpoint" if preset.checkpoint else None)
    defaults, papers = values_of(recipe), stated(preset)
    changed = recipe.changed(encoder=preset.encoder, head=preset.head, train=preset.train)
    differ = [
        f"{key} {shown(value)} ({shown(defaults[key])})" for key, value in papers.items() if defaults[key] != value
    ]
    same = [f"{key} {shown(value)}" for key, value in papers.items() if defaults[key] == value]
    hidden = {*papers, *TECHNICAL, *unused(changed)}
    silent = [
        f"{key} {shown(value)}"
        for key, value in values_of(changed).items()
        if key not in hidden and key.partition(".")[2] not in STRUCTURE
    ]
    return ", ".join(differ) or "–", ", ".join(same) or "–", ", ".join(silent)


def tables() -> str:
    """Return both tables; systems with equal cells share a row."""
    rows = {name: row(name) for name in PRESETS}
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, cells in rows.items():
        groups.setdefault(cells, []).append(f"`{name}`")
    lines = ["| systems | the paper's value (epigram's default) | the same in both |", "| --- | --- | --- |"]
    lines += [f"| {', '.join(names)} | {differ} | {same} |" for (differ, same, _), names in groups.items()]
    lines += ["", "Settings that the papers do not state have epigram's defaults:", ""]
    lines += ["| systems | epigram's default |", "| --- | --- |"]
    lines += [f"| {', '.join(names)} | {silent} |" for (_, _, silent), names in groups.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(text + START + "\n" + tables(), encoding="utf-8")
