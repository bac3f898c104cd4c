"""The page to try texts: one HTML file that loads nothing from other machines."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files


def page() -> tuple[bytes, dict[str, str]]:
    """Return the page and its headers; browsers run no script on it but its own."""
    text = files(__package__).joinpath("templates", "page.html").read_text(encoding="utf-8")
    hashes = {tag: _hash(re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[0]) for tag in ("script", "style")}
    policy = (
        f"default-src 'none'; script-src '{hashes['script']}'; style-src '{hashes['style']}'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), {"content-security-policy": policy, "x-content-type-options": "nosniff"}


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
