"""Prefect automations of the service: mark runs whose process is gone as Crashed, and report failures."""

from __future__ import annotations

from datetime import timedelta
from typing import cast
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from pydantic import SecretStr

from epigram.runner.service.prefect_adapter import HEARTBEAT_EVENT

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
