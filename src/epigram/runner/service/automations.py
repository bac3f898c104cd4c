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

from epigram.runner.prefect import heartbeat

SILENCE = 90.0  # seconds: three heartbeats
BLOCK = "failure-notice"
TEXT = """\
{{ flow.name }}: {{ flow_run.name }} is {{ flow_run.state.name }}
{{ flow_run.state.message | default("", true) | truncate(1000) }}
{{ flow_run | ui_url }}"""


def ensure(door: str | None, silence: float = SILENCE) -> None:
    """Create or update both automations.

    `door` is the URL of the local relay for failure notices. Without it, the automation that reports failures is
    deleted. An automation that is disabled in the dashboard stays disabled. `silence` is in seconds.
    """
    with get_client(sync_client=True) as client:
        _put(client, gone(silence))
        if door:
            block = cast(UUID, Webhook(url=SecretStr(door)).save(BLOCK, overwrite=True))
            _put(client, failed(CallWebhook(block_document_id=block, payload=TEXT)))
        else:
            for old in client.read_automations_by_name(BLOCK):
                client.delete_automation(old.id)


def gone(silence: float) -> AutomationCore:
    """Return the automation that marks a run as Crashed if no event follows a heartbeat for `silence` seconds."""
    message = f"no heartbeat for {silence:g} s: the process is gone"
    return AutomationCore(
        name="crashed-runs",
        description="A run without a heartbeat has lost its process: it is Crashed.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={heartbeat.EVENT},
            expect={"prefect.flow-run.*"},  # a final state can have any name
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            within=timedelta(seconds=silence),
        ),
        actions=[ChangeFlowRunState(name=None, state=StateType.CRASHED, message=message, force=False)],
    )


def failed(tell: CallWebhook) -> AutomationCore:
    """Return the automation that reports a deployment's run that is Failed or Crashed."""
    return AutomationCore(
        name=BLOCK,
        description="A scheduled run that failed or crashed is told to the address in EPIGRAM_WEBHOOK.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.*"},
            match={"prefect.resource.id": "prefect.flow-run.*", "prefect.state-type": ["FAILED", "CRASHED"]},
            match_related={"prefect.resource.role": "deployment"},
            for_each={"prefect.resource.id"},
        ),
        actions=[tell],
    )


def _put(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    found = client.read_automations_by_name(wanted.name)
    if found:
        client.update_automation(found[0].id, wanted.model_copy(update={"enabled": found[0].enabled}))
    else:
        client.create_automation(wanted)
