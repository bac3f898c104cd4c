"""Parts of Prefect that its documentation does not cover, in one place.

A new version of Prefect may change them; tests/contract/test_adapters_prefect.py then names the missing part. Prefect
is imported when a function is called, because the server starts while it is imported.
"""

from __future__ import annotations

from typing import Any

from epigram.process.startup import no_collection

# The event that Prefect's own heartbeat sends. The public setting is only its interval.
HEARTBEAT_EVENT = "prefect.flow-run.heartbeat"
# Prefect reports an unreachable API as a RuntimeError with this text. Its cause is checked first.
UNREACHABLE = "Failed to reach API"


def server_app(*, embedded: bool) -> Any:
    """Return Prefect's server as an ASGI application; an `embedded` one has no dashboard and fewer services.

    This calls an internal function of Prefect, because `prefect server start` cannot add middleware.
    """
    with no_collection():
        from prefect.server.api.server import create_app

        return create_app(ephemeral=embedded, final=True)


def refresh_settings() -> None:
    """Make an imported Prefect read its settings from the environment again.

    Prefect otherwise starts a second server, which answers requests from any web page and outlives the run.
    """
    from prefect import context

    context.refresh_global_settings_context()


def is_unreachable(error: BaseException) -> bool:
    """Return whether Prefect's server did not respond, or returned the final state without its result."""
    import httpx
    from prefect.exceptions import MissingResult

    cause = error.__cause__ if type(error) is RuntimeError else error
    return isinstance(cause, (httpx.TransportError, MissingResult)) or UNREACHABLE in str(error)
