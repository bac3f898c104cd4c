"""The address of a Ray cluster: whether it is one, and whether anything answers there."""

from __future__ import annotations

import socket

from pithy.errors import ParameterError, TryAgainError

LOCAL = "local"  # a cluster of this machine's own processors, for one flow
PATIENCE = 10.0  # seconds


def knock(address: str | None) -> None:
    """Try a cluster's door before anything is started: Ray itself would try for many minutes.

    Raises ParameterError for what is no address, TryAgainError where nothing answers.
    """
    if address is None or address in {LOCAL, "auto"}:
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise ParameterError(f"--ray was {address!r}: local, auto, HOST:PORT or ray://HOST:PORT is allowed")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise TryAgainError(f"no Ray cluster answers at {address}: {error}") from None
