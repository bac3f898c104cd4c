"""Address of a Ray cluster: check of its format, and whether it accepts connections."""

from __future__ import annotations

import socket

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError, TryAgainError

LOCAL = "local"  # a cluster on this machine's processors, for one flow
PATIENCE = 10.0  # seconds
PORTS = 65_535


def knock(address: str | None) -> None:
    """Check that the Ray cluster at `address` accepts connections before anything is started.

    Ray itself would retry for many minutes. None, `local` and `auto` are not checked. Raises ParameterError if the
    address is malformed, TryAgainError if the connection fails.
    """
    if address is None or address in {LOCAL, "auto"}:
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not _is_port(port):
        raise ParameterError(f"--ray was {shown(address)!r}: local, auto, HOST:PORT or ray://HOST:PORT is allowed")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except UnicodeError:  # the host name cannot be encoded for DNS
        raise ParameterError(f"--ray was {shown(address)!r}: its host is not a name or an address") from None
    except OSError as error:
        raise TryAgainError(f"no Ray cluster answers at {address}: {error}") from None


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(PORTS)) and 0 < int(text) <= PORTS
