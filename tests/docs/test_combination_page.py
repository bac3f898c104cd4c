"""docs/combinations.md is current."""

from __future__ import annotations

from tests.support.combination_page import PAGE, cell, rendered, table


def test_the_page_is_the_one_that_the_command_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run python -m tests.support.combination_page"


def test_a_cell_has_a_mark_or_the_number_of_its_reason() -> None:
    assert cell(("encoder", "bilstm"), ("fusion", "hook")) == "✓"
    number = cell(("encoder", "dpcnn"), ("head", "tagger"))
    page = rendered()
    reason = next(line for line in page.splitlines() if line.startswith(f"{number}. "))
    assert reason == f"{number}. The head reads every token, and the encoder shortens the text."


def test_the_page_shows_why_head_to_head_attention_of_correlations_is_refused() -> None:
    numbers = [cell(("attention", "correlation"), ("HTH", gate)) for gate in ("paper", "residual")]
    lines = rendered().splitlines()
    assert f"| `correlation` | {' | '.join(numbers)} |" in lines
    reason = "Correlation attention has one head, and head-to-head attention weighs the heads against each other."
    assert {f"{number}. {reason}" for number in numbers} <= set(lines)


def test_a_table_has_a_row_per_level_and_a_column_per_other_level() -> None:
    lines = table("labels", [("prompt", ["none", "two masks"])]).splitlines()
    assert lines == [
        "| labels | no prompt | prompt |",
        "| --- | --- | --- |",
        "| `one` | ✓ | ✓ |",
        "| `several` | ✓ | ✓ |",
    ]
