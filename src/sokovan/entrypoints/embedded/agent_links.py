"""Admits agents on their links: checks the token and converts Hello frames."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from sokovan.domain.cluster.agent_claims import claims_in, without_claims
from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, checked_name
from sokovan.domain.records import Device
from sokovan.domain.serving.ticket import data_key
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.agent_registry import AgentRegistry, AgentRejection, EnrolmentRequest
from sokovan.orchestrator.sessions.config import Retention
from sokovan.wire.frames import Hello, HelloRefused, Welcome


def admission(
    registry: AgentRegistry, token: str, *, heartbeat_s: float, retention: Callable[[], Retention] = Retention
) -> Callable[[Hello, str], Awaitable[Welcome | HelloRefused]]:
    """A function that admits agents with `token`, and refuses others with a reason."""
    is_token = known_token(token)

    async def admit(hello: Hello, given: str) -> Welcome | HelloRefused:
        if not is_token(given):
            return HelloRefused(code="unauthorized", message="the agent token is not valid", final=True)
        try:
            arrival = arrival_of(hello)
        except InvalidInput as error:
            return HelloRefused(code=error.code, message=error.message, final=True)
        verdict = await registry.admit(arrival)
        if isinstance(verdict, AgentRejection):
            return HelloRefused(code=verdict.code, message=verdict.message, final=verdict.final)
        keep = retention()
        return Welcome(
            incarnation=verdict.incarnation,
            heartbeat_s=heartbeat_s,
            draining=verdict.draining,
            kept_max=keep.kernels_max,
            kept_s=round(keep.seconds),
            data_key=data_key(token, arrival.agent_id),
        )

    return admit


def known_token(token: str) -> Callable[[str], bool]:
    """A constant-time check of a credential against `token`."""
    expected = token.encode()
    return lambda given: hmac.compare_digest(given.encode(), expected)


def arrival_of(hello: Hello) -> EnrolmentRequest:
    """Validate a Hello frame. Raises InvalidInput."""
    return EnrolmentRequest(
        agent_id=AgentId(checked_name(hello.agent_id, what="agent")),
        identity=hello.identity,
        process=hello.process,
        incarnation=hello.incarnation,
        slots=ResourceSlot(hello.slots),
        devices=tuple(Device(entry.device_id, entry.slot, entry.units) for entry in hello.devices),
        architecture=hello.architecture,
        scaling_group=ScalingGroupName(hello.scaling_group or "default"),
        labels=without_claims(hello.labels),
        kernels_max=hello.kernels_max,
        kernels=tuple((KernelId(entry.kernel_id), entry.attempt) for entry in hello.kernels),
        partial=hello.partial,
        shard=hello.shard or None,
        images=hello.images,
        claims=claims_in(hello.labels).marks(),
    )
