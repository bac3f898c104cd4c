"""Model card of a saved model: a README.md with metadata in the format of the Hugging Face hub."""

from __future__ import annotations

from typing import Any

from torch import nn

from epigram.models.classifier import count_parameters
from epigram.models.recipe import Recipe
from epigram.process.display import escape_markdown

CARD = "README.md"


def model_card(
    recipe: Recipe, model: nn.Module, labels: list[str], facts: dict[str, Any], *, language: str, max_length: int
) -> str:
    """Return the model card: description, training data and use of the model."""
    metadata = f"language: {language}\nlibrary_name: epigram\npipeline_tag: text-classification"
    return f"---\n{metadata}\n---\n\n{_text(recipe, model, labels, facts, language, max_length)}"


def _text(
    recipe: Recipe, model: nn.Module, labels: list[str], facts: dict[str, Any], language: str, max_length: int
) -> str:
    score = f"dev {'micro-F1 at 0.5' if getattr(model, 'multi', False) else 'accuracy'} of this seed in training"
    named = {score if name == "dev_accuracy" else name: value for name, value in facts.items()}
    shown = "\n".join(
        f"* {name}: {escape_markdown(str(value))}" for name, value in named.items() if not isinstance(value, dict)
    )
    return f"""# {escape_markdown(recipe.name)}

{recipe.about} ({recipe.paper}).

* language: {language}
* labels: {escape_markdown(", ".join(labels))}
* parameters: {count_parameters(model):,}
* maximum length: {max_length} tokens; longer texts are truncated
{shown}

## Use

    epigram predict . "a text"

The folder is self-contained: weights (safetensors), tokenizer, labels and settings.
"""
