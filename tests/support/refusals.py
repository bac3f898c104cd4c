"""Check of one system as `epigram run` makes it."""

from __future__ import annotations

from typing import Any

from epigram.models.settings import System
from epigram.text.settings import PretrainSettings, ViewSettings
from epigram.training.preflight import check_systems


def checked(
    *,
    checkpoint: str | None = None,
    prompt: bool = False,
    multi: bool = False,
    tokens: bool = True,
    pretrain: PretrainSettings | None = None,
    shared: dict[str, Any] | None = None,
    **system: Any,
) -> None:
    """Check a run of one system, named x; `shared` is the train section of the run."""
    view = ViewSettings(tokenizer="wordpiece", prompt=prompt, checkpoint=checkpoint, pretrain=pretrain)
    wanted = System(view="view", **{"recipe": "transformer", **system})
    check_systems({"view": view}, {"x": wanted}, shared or {}, multi=multi, tokens=tokens)


def pretrained(**settings: Any) -> dict[str, Any]:
    return {"kind": "pretrained", **settings}
