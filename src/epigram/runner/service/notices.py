"""Notices about runs: Prefect's automations, and the relay to the webhook.

The address is a secret. In a block of Prefect, it would be in the database, and every client of the API could read it
(`include_secrets`). Prefect therefore gets only the relay's URL; only the process that runs the service knows the
address behind it.
"""

from __future__ import annotations

import hmac
import html
import logging
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, cast
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from pydantic import SecretStr

from epigram.core.config_types import is_http_url
from epigram.core.errors import ParameterError
from epigram.process.display import echo, printable
from epigram.runner.service.prefect_adapter import HEARTBEAT_EVENT

MAX_MESSAGE_BYTES = 4_000  # maximum size of a notice in bytes
MAX_LENGTH_DIGITS = 10  # digits of Content-Length that are read
RETRY_DELAYS = (0.0, 5.0, 30.0)  # seconds before each try
TIMEOUT = 10.0


@contextmanager
def start_relay(address: str) -> Iterator[str]:
    """Run a relay on this machine that forwards the text of a POST to `address`, as `{"text": …}`.

    Yields the relay's URL. Raises ParameterError if `address` is not an http or https URL.
    """
    if not is_http_url(address):
        raise ParameterError("EPIGRAM_WEBHOOK is not a valid URL; expected http://… or https://…")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # at lower levels, httpx logs every URL
    path = f"/{secrets.token_urlsafe()}"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            accepted = hmac.compare_digest(self.path.encode(), path.encode()) and length.isdecimal()
            if accepted:
                text = self.rfile.read(min(int(length[:MAX_LENGTH_DIGITS]), MAX_MESSAGE_BYTES)).decode(errors="replace")
                Thread(target=_send, args=(address, text), daemon=True).start()
            self.send_response(HTTPStatus.ACCEPTED if accepted else HTTPStatus.NOT_FOUND)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing: the path is a secret."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{path}"
        server.shutdown()


def _send(address: str, text: str) -> None:
    """Post the notice, with retries; print a failure without the address.

    Control characters are removed, and `&`, `<` and `>` escaped, as Slack needs it: otherwise a row or a label in the
    message could become a link or a mention. The last line is the address of the run, in which `&` stays.
    """
    import httpx

    message, line, run = printable(text).rpartition("\n")
    notice = "".join([html.escape(message, quote=False), line, run.replace("<", "&lt;").replace(">", "&gt;")])
    reason = ""
    for delay in RETRY_DELAYS:
        time.sleep(delay)
        try:
            response = httpx.post(address, json={"text": notice}, timeout=TIMEOUT)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: invalid host name
            reason = type(error).__name__
            continue
        if response.is_success:
            return
        reason = f"HTTP {response.status_code}"
    echo(f"cannot send a failure notice to EPIGRAM_WEBHOOK: {reason}", file=sys.stderr, flush=True)


HEARTBEAT_TIMEOUT = 90.0  # seconds: three heartbeats
FAILURE_NOTICE = "failure-notice"
TEXT = """\
{{ flow.name }}: {{ flow_run.name }} is {{ flow_run.state.name }}
{{ flow_run.state.message | default("", true) | truncate(1000) }}
{{ flow_run | ui_url }}"""


def ensure(relay_url: str | None, timeout: float = HEARTBEAT_TIMEOUT) -> None:
    """Create or update both automations.

    `relay_url` is the URL of the local relay for failure notices. Without it, the automation that reports failures is
    deleted. An automation that is disabled in the dashboard stays disabled. `timeout` is in seconds.
    """
    with get_client(sync_client=True) as client:
        _create_or_update(client, crash_automation(timeout))
        if relay_url:
            block = cast(UUID, Webhook(url=SecretStr(relay_url)).save(FAILURE_NOTICE, overwrite=True))
            _create_or_update(client, failure_automation(CallWebhook(block_document_id=block, payload=TEXT)))
        else:
            for old in client.read_automations_by_name(FAILURE_NOTICE):
                client.delete_automation(old.id)


def crash_automation(timeout: float) -> AutomationCore:
    """Return the automation that marks a run as Crashed if no event follows a heartbeat for `timeout` seconds."""
    message = f"no heartbeat for {timeout:g} s: the process no longer exists"
    return AutomationCore(
        name="crashed-runs",
        description="Marks a run without heartbeats as Crashed, because its process no longer exists.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={HEARTBEAT_EVENT},
            expect={"prefect.flow-run.*"},  # a final state can have any name
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            within=timedelta(seconds=timeout),
        ),
        actions=[ChangeFlowRunState(name=None, state=StateType.CRASHED, message=message, force=False)],
    )


def failure_automation(action: CallWebhook) -> AutomationCore:
    """Return the automation that reports a deployment's run that is Failed or Crashed."""
    return AutomationCore(
        name=FAILURE_NOTICE,
        description="Reports a scheduled run that failed or crashed to the URL in EPIGRAM_WEBHOOK.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.*"},
            match={"prefect.resource.id": "prefect.flow-run.*", "prefect.state-type": ["FAILED", "CRASHED"]},
            match_related={"prefect.resource.role": "deployment"},
            for_each={"prefect.resource.id"},
        ),
        actions=[action],
    )


def _create_or_update(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    existing = client.read_automations_by_name(wanted.name)
    if existing:
        client.update_automation(existing[0].id, wanted.model_copy(update={"enabled": existing[0].enabled}))
    else:
        client.create_automation(wanted)
