"""Reader for the JSON export of Label Studio: tasks with annotations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from epigram.data.annotated_tasks import annotated_rows
from epigram.data.readers import register
from epigram.data.readers.json import Json
from epigram.data.tables import Options


@register("label_studio")
@dataclass(frozen=True, kw_only=True)
class LabelStudio(Json):
    """Reader for tasks; each annotation that was not cancelled is a row with the data of its task.

    The choices are in a column with the name of their control, or in the column `label` if there is one control. The
    column `spans` has the marked parts of the text, and `answer` is ignore for a task without an annotation.
    """

    suffixes: ClassVar[dict[str, Options]] = {}

    def rows(self, path: Path) -> list[dict[str, Any]]:
        """Return the annotations. Raises DataError as `Json.rows` does."""
        tasks = [task for task in super().rows(path) if isinstance(task.get("data"), dict)]
        text = self.text if isinstance(self.text, str) else ""
        found = [row for task in tasks for row in annotated_rows(task, text)]
        controls = {name for _, choices in found for name in choices}
        if self.label is None or len(controls) != 1:
            return [row | choices for row, choices in found]
        several = any(len(each) > 1 for _, choices in found for each in choices.values())
        missing: list[str] | None = [] if several else None  # without a choice, a text of several labels has none
        return [row | {self.label: next(iter(choices.values()), missing)} for row, choices in found]
