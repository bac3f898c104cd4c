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
from epigram.core.files import is_inside

ALLOWED_VARIABLES = "EPIGRAM_SOURCE_VARIABLES"
VARIABLE = re.compile(r"\$\{(\w+)\}")
DRIVER_PREFIXES = ("PG", "HF_")  # variables that the PostgreSQL driver and the hub client read by themselves
FILE_PARAMETERS = {"passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "service", "servicefile"}
# IPv6 networks whose addresses end with an IPv4 address
IPV4_NETWORKS = [ipaddress.ip_network(net) for net in ("::/96", "64:ff9b::/96", "::ffff:0:0:0/96")]
LOCAL_ZONE = 2  # zones: 0 public, 1 private network, 2 loopback or link-local


def is_safe_path(name: str) -> bool:
    """Return whether `name` is a printable relative path that stays below the folder it is joined to."""
    return is_inner_path(name) and name.isprintable()


def redact_address(address: str) -> str:
    """Return the address without user, password, query and fragment, which may be secret."""
    scheme, mark, rest = address.partition("://") if "://" in address else ("", "", address)
    host = re.split(r"[/?#]", rest)[0]
    has_user_or_port = "@" in host or ":" in host  # a password that contains "/" can follow ":" instead of a port
    if has_user_or_port and "@" in rest:
        rest = f"***@{rest.rpartition('@')[2]}"
    return scheme + mark + re.split(r"[?#]", rest)[0]


def mask_secrets(message: str, address: str) -> str:
    """Replace the secrets of `address` in `message` by ***, both as written and percent-decoded."""
    rest = address.partition("://")[2]
    user, _, password = rest.rpartition("@")[0].partition(":")
    values = [value for part in re.split(r"[?#]", rest)[1:] for _, value in parse_qsl(part)]
    for secret in (password, user, *values):
        for each in filter(None, (secret, unquote(secret))):
            message = message.replace(each, "***")
    return message


def expand_variables(address: str) -> str:
    """Return a database address with each ${VARIABLE} replaced by its value.

    Raises ParameterError if a variable is not allowed or not set.
    """
    return VARIABLE.sub(_variable_value, address)


def _variable_value(variable: re.Match[str]) -> str:
    name = variable[1]
    if name not in _allowed_variables():
        raise ParameterError(
            f"the source needs the environment variable {name}, which is not allowed; if you trust the source, set "
            f"{ALLOWED_VARIABLES}={','.join([*sorted(_allowed_variables()), name])} in your environment"
        )
    if (value := os.environ.get(name)) is None:
        raise ParameterError(f"the environment variable {name} is not set; a database address needs it")
    return value


def _allowed_variables() -> set[str]:
    """Return the names of the environment variables that sources may use."""
    return {name.strip() for name in os.environ.get(ALLOWED_VARIABLES, "").split(",") if name.strip()}


@contextmanager
def only_allowed_variables() -> Iterator[None]:
    """Hide variables that drivers read by themselves, such as PGPASSWORD and HF_TOKEN, unless the user allows them.

    Unless HF_TOKEN or HF_HOME is allowed, the token stored by `hf auth login` is hidden as well.
    """
    allowed = _allowed_variables()
    before = {
        name: value for name, value in os.environ.items() if name.startswith(DRIVER_PREFIXES) and name not in allowed
    }
    for name in before:
        del os.environ[name]
    if without_token := not allowed & {"HF_TOKEN", "HF_HOME"}:
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
    parameters = {name.lower() for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)}
    if found := FILE_PARAMETERS & parameters:
        raise ParameterError(
            f"{redact_address(address)} has parameters that name local files ({', '.join(sorted(found))}); store the "
            f"whole address in an environment variable and add its name to {ALLOWED_VARIABLES}"
        )


def check_sqlite_file(address: str, full: str, root: Path) -> Path:
    """Return the file of an SQLite address; `full` is `address` with its variables replaced.

    The file must be below the project folder `root`, unless the whole address is one variable. Raises ParameterError
    for a file outside `root`.
    """
    file = Path(unquote(full.removeprefix("sqlite://").partition("?")[0]).removeprefix("/"))
    if VARIABLE.fullmatch(address) or is_inside(file, root):
        return file
    raise ParameterError(
        f"{redact_address(address)} is outside of the project; move the file to data/local, or store the whole address "
        f"in an environment variable and add its name to {ALLOWED_VARIABLES}"
    )


def check_redirect(address: str, target: str) -> None:
    """Reject a redirect to a host in a higher `network_zone` than `address`, for example from public to private.

    A host that cannot be resolved counts as public. Raises SourceUnavailableError.
    """
    if network_zone(urlsplit(target).hostname or "") > network_zone(urlsplit(address).hostname or ""):
        raise SourceUnavailableError(
            f"{redact_address(address)} redirects to the private address {shown(redact_address(target))}; if you trust "
            "it, use that address in the source"
        )


def network_zone(host: str) -> int:
    """Return 0 for a public host, 1 for a private network, 2 for loopback or link-local; the highest zone counts."""
    found = [ipaddress.ip_address(address) for address in _resolve(host)]
    return max((_ip_zone(each) for ip in found for each in (ip, *_embedded_ipv4(ip))), default=0)


def _resolve(host: str) -> set[str]:
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


def _ip_zone(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
        return LOCAL_ZONE
    return 0 if ip.is_global and not ip.is_multicast else 1


def _embedded_ipv4(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address contains: mapped, compatible, 6to4 or NAT64."""
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    last = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    own = [last] if any(ip in network for network in IPV4_NETWORKS) and int(ip) > 1 else []
    return [*own, *filter(None, (ip.ipv4_mapped, ip.sixtofour))]
