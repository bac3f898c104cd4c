"""Access control for data sources: local files, environment variables, redirects, and masking of secrets."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from epigram.core.config_types import is_inner_path, shown
from epigram.core.errors import ParameterError, SourceUnavailableError
from epigram.core.files import stands_in

ALLOWED = "EPIGRAM_SOURCE_VARIABLES"
VARIABLE = re.compile(r"\$\{(\w+)\}")
OWN = ("PG", "HF_")  # prefixes of variables that the PostgreSQL driver and the hub client read by themselves
FILES = {"passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "service", "servicefile"}
CARRIERS = [ipaddress.ip_network(net) for net in ("::/96", "64:ff9b::/96", "::ffff:0:0:0/96")]  # contain IPv4
NEAREST = 2  # zones: 0 public, 1 private network, 2 loopback or link-local


def contained(name: str) -> bool:
    """Return whether `name` is a printable relative path that stays below the folder it is joined to."""
    return is_inner_path(name) and name.isprintable()


def hidden(address: str) -> str:
    """Return the address without user, password, query and fragment, which may be secret."""
    scheme, mark, rest = address.partition("://") if "://" in address else ("", "", address)
    host = re.split(r"[/?#]", rest)[0]
    named = "@" in host or ":" in host  # after ":" may be a password that contains "/", not a port
    if named and "@" in rest:
        rest = f"***@{rest.rpartition('@')[2]}"
    return scheme + mark + re.split(r"[?#]", rest)[0]


def masked(words: str, address: str) -> str:
    """Replace the secrets of `address` in `words` by ***, both as written and percent-decoded."""
    beyond = address.partition("://")[2]
    user, _, password = beyond.rpartition("@")[0].partition(":")
    values = [value for part in re.split(r"[?#]", beyond)[1:] for _, value in parse_qsl(part)]
    for secret in (password, user, *values):
        for each in filter(None, (secret, unquote(secret))):
            words = words.replace(each, "***")
    return words


def expanded(address: str) -> str:
    """Return a database address with each ${VARIABLE} replaced by its value.

    Raises ParameterError if a variable is not allowed or not set.
    """
    return VARIABLE.sub(_value, address)


def _value(variable: re.Match[str]) -> str:
    name = variable[1]
    if name not in _allowed():
        raise ParameterError(
            f"a source asks for the environment variable {name}, which it may not read: if you trust the source, set "
            f"{ALLOWED}={','.join([*sorted(_allowed()), name])} in your environment"
        )
    if (value := os.environ.get(name)) is None:
        raise ParameterError(f"the environment variable {name} is not set, and a database address needs it")
    return value


def _allowed() -> set[str]:
    """Return the names of the environment variables that sources may use."""
    return {name.strip() for name in os.environ.get(ALLOWED, "").split(",") if name.strip()}


@contextmanager
def only_allowed_variables() -> Iterator[None]:
    """Hide variables that drivers read by themselves, such as PGPASSWORD and HF_TOKEN, unless the user allows them.

    Unless HF_TOKEN or HF_HOME is allowed, the token stored by `hf auth login` is hidden as well.
    """
    before = {name: value for name, value in os.environ.items() if name.startswith(OWN) and name not in _allowed()}
    for name in before:
        del os.environ[name]
    if without_token := not _allowed() & {"HF_TOKEN", "HF_HOME"}:
        os.environ["HF_HOME"] = os.devnull
    try:
        yield
    finally:
        if without_token:
            del os.environ["HF_HOME"]
        os.environ.update(before)


def check_parameters(address: str) -> None:
    """Reject parameters of a PostgreSQL address that name local files, such as sslkey.

    Only the address as written in the source is checked; parameters from an environment variable are the user's own
    and are allowed. Raises ParameterError.
    """
    if found := FILES & {name.lower() for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)}:
        raise ParameterError(
            f"{hidden(address)} names a local file ({', '.join(sorted(found))}): put the whole address into an "
            f"environment variable and name it in {ALLOWED}"
        )


def sqlite_file(address: str, full: str, root: Path) -> Path:
    """Return the file of an SQLite address; `full` is `address` with its variables replaced.

    The file must be below the project folder `root`, unless the whole address is one variable. Raises ParameterError
    for a file outside `root`.
    """
    file = Path(unquote(full.removeprefix("sqlite://").partition("?")[0]).removeprefix("/"))
    if VARIABLE.fullmatch(address) or stands_in(file, root):
        return file
    raise ParameterError(
        f"{hidden(address)} is outside the project: put the file below data/local, or the whole address into an "
        f"environment variable and name it in {ALLOWED}"
    )


def check_redirect(named: str, target: str) -> None:
    """Reject a redirect to a host in a higher `zone` than the `named` address, for example from public to private.

    A host that cannot be resolved counts as public. Raises SourceUnavailableError.
    """
    if zone(urlsplit(target).hostname or "") > zone(urlsplit(named).hostname or ""):
        raise SourceUnavailableError(
            f"{hidden(named)} redirects to the private address {shown(hidden(target))}, which is refused: "
            "if you trust it, name that address in the source"
        )


def zone(host: str) -> int:
    """Return 0 for a public host, 1 for a private network, 2 for loopback or link-local; the highest zone counts."""
    return max(map(_zone_of, _resolved(host)), default=0)


def _resolved(host: str) -> set[str]:
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


def _zone_of(address: str) -> int:
    ip = ipaddress.ip_address(address)
    return max(map(_zone_of_ip, (ip, *_carried(ip))))


def _zone_of_ip(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
        return NEAREST
    return 0 if ip.is_global and not ip.is_multicast else 1


def _carried(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address contains: mapped, compatible, 6to4 or NAT64."""
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    last = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    own = [last] if any(ip in network for network in CARRIERS) and int(ip) > 1 else []
    return [*own, *filter(None, (ip.ipv4_mapped, ip.sixtofour))]
