"""Heads by kind. Each module of this package defines one head and registers its settings under its own name."""

from __future__ import annotations

from epigram.core.registry import Registry

KINDS: Registry[type] = Registry(__name__)
register = KINDS.register
