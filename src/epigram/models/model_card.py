"""Model card of a saved model: a README.md with metadata in the format of the Hugging Face hub.

The comparison writes a longer card, with the scores, to the model that it chooses: see report/chosen_card.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from epigram.models.classifier import count_parameters
from epigram.models.recipe import Recipe
from epigram.process.display import escape_markdown


def model_card(
    recipe: Recipe, model: nn.Module, labels: list[str], facts: dict[str, Any], *, language: str, max_length: int
) -> str:
    """Return the model card: description, training data and use of the model."""
    shown = "\n".join(f"* {name}: {escape_markdown(str(facts[name]))}" for name in ("dataset", "seed") if name in facts)
    return f"""---
language: {language}
library_name: epigram
pipeline_tag: text-classification
---

# {escape_markdown(recipe.name)}

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
