"""Exports of Label Studio in JSON: tasks, their annotations, and the marked parts of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SPANS, ANSWER = "spans", "answer"  # columns


def is_export(value: Any) -> bool:
    """Return whether a JSON value is a list of tasks."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(task, dict) and {"data", "annotations"} <= task.keys() for task in value)
    )


def export_options(value: Any) -> dict[str, Any]:
    """Return the options that read the tasks of an export."""
    kinds = {
        kind for task in value for result in _results(task) if (kind := result.get("type")) in {"choices", "labels"}
    }
    spans = {"spans": SPANS} if "labels" in kinds else {}
    return {"reader": "label_studio"} | spans | ({"label": None} if kinds == {"labels"} else {})


def _annotated(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for each in task["annotations"] or [] if not each.get("was_cancelled")]


def _results(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for annotation in _annotated(task):
        yield from annotation.get("result") or []


def annotated_rows(task: Mapping[str, Any], text: str) -> Iterator[tuple[dict[str, Any], dict[str, list[str]]]]:
    """Yield the data and the choices of each annotation."""
    for annotation in _annotated(task) or [{"absent": True}]:
        choices: dict[str, list[str]] = {}
        spans: list[list[Any]] = []
        for result in annotation.get("result") or []:
            value = result.get("value") or {}
            if result.get("type") == "choices":
                choices.setdefault(str(result.get("from_name")), []).extend(map(str, value.get("choices") or []))
            elif result.get("type") == "labels":
                place = _span(value, str(task["data"].get(text) or ""))
                spans += [[*place, str(label)] for label in value.get("labels") or []]
        answer = "ignore" if "absent" in annotation else "accept"
        yield {**task["data"], SPANS: spans, ANSWER: answer}, choices


def _span(value: Mapping[str, Any], text: str) -> tuple[Any, Any]:
    """Return the start and end of a marked part in characters; some versions count UTF-16 units."""
    start, end = value.get("start"), value.get("end")
    marked = value.get("text")
    if isinstance(start, int) and isinstance(end, int) and isinstance(marked, str) and text[start:end] != marked:
        units = text.encode("utf-16-le")
        if units[2 * start : 2 * end] == marked.encode("utf-16-le"):
            start = len(units[: 2 * start].decode("utf-16-le"))
            end = start + len(marked)
    return start, end
