"""Address of a Ray cluster: check of its format, and whether it accepts connections."""

from __future__ import annotations

import socket

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError, TryAgainError

LOCAL = "local"  # a cluster on this machine's processors, for one flow
CONNECT_TIMEOUT = 10.0  # seconds
MAX_PORT = 65_535


def ping(address: str | None) -> None:
    """Check that the Ray cluster at `address` accepts connections before anything is started.

    Ray itself would retry for many minutes. None, `local` and `auto` are not checked. Raises ParameterError if the
    address is malformed, TryAgainError if the connection fails.
    """
    if address is None or address in {LOCAL, "auto"}:
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) <= MAX_PORT):
        raise ParameterError(f"invalid --ray {shown(address)!r}: expected local, auto, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
    except UnicodeError:  # the host name cannot be encoded for DNS
        raise ParameterError(
            f"invalid --ray {shown(address)!r}: the host is not a valid host name or IP address"
        ) from None
    except OSError as error:
        raise TryAgainError(
            f"cannot connect to a Ray cluster at {address}: {error}; check the address and that the cluster is running"
        ) from None
