"""Parts of Prefect that its documentation does not cover, in one place.

A new version of Prefect may change them; tests/contract/test_adapters_prefect.py then names the missing part. Prefect
is imported when a function is called, because the server starts while it is imported.
"""

from __future__ import annotations

from typing import Any

from epigram.core.collection import no_collection
from epigram.core.errors import EpigramError

# The event that Prefect's own heartbeat sends. The public setting is only its interval.
HEARTBEAT_EVENT = "prefect.flow-run.heartbeat"
# Prefect reports an unreachable API as a RuntimeError with this text. Its cause is checked first.
UNREACHABLE = "Failed to reach API"


def server_app(*, embedded: bool) -> Any:
    """Return Prefect's server as an ASGI application; an `embedded` one has no dashboard and fewer services.

    This calls an internal function of Prefect, because `prefect server start` cannot add middleware. Raises
    EpigramError if this version of Prefect does not have the function.
    """
    with no_collection():
        try:
            from prefect.server.api.server import create_app
        except ImportError:
            raise EpigramError(missing("prefect.server.api.server.create_app", "start the server")) from None
        return create_app(ephemeral=embedded, final=True)


def refresh_settings() -> None:
    """Make an imported Prefect read its settings from the environment again.

    Prefect otherwise starts a second server, which answers requests from any web page and outlives the run. Raises
    EpigramError if this version of Prefect has no such function.
    """
    from prefect import context

    refresh = getattr(context, "refresh_global_settings_context", None)
    if refresh is None:
        raise EpigramError(missing("prefect.context.refresh_global_settings_context", "use the server of the run"))
    refresh()


def is_unreachable(error: BaseException) -> bool:
    """Return whether Prefect's server did not respond, or returned the final state without its result."""
    import httpx
    from prefect.exceptions import MissingResult

    cause = error.__cause__ if type(error) is RuntimeError else error
    return isinstance(cause, (httpx.TransportError, MissingResult)) or UNREACHABLE in str(error)


def missing(part: str, purpose: str) -> str:
    """Return the message for a `part` that the installed version of Prefect does not have."""
    import prefect

    return f"prefect {prefect.__version__} has no {part}, which epigram needs to {purpose}; install prefect 3.8"
