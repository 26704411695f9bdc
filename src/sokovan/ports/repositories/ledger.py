"""The ledger of held slots, and the only way to free them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from sokovan.domain.errors import SokovanError, quoted
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.eviction import Checkpoint
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.domain.owners.past_usage import PastUsage
from sokovan.domain.owners.policy import Scope
from sokovan.domain.records import (
    Change,
    DeviceTimes,
    HeldDevice,
    HeldPort,
    HeldSlot,
    KernelRecord,
    SessionRecord,
)

# The last checkpoints that kernels reported.
Checkpoints: TypeAlias = Mapping[KernelId, Checkpoint]
# In the usage of an owner: the number of its sessions that hold slots.
SESSIONS_HELD = "#sessions"
# How many held ports are listed; they serve an explanation.
PORTS_LISTED_MAX = 20


class OwnEnds(NamedTuple):
    """Kernels of evicted sessions that ended by themselves before the notice.

    `exits` are their codes; receipts keep them. With those that are `completed`, of this call or
    earlier ones, their session has ended: it ends by their exit codes, and does not wait again.
    """

    exits: Mapping[KernelId, int] = {}
    completed: Collection[KernelId] = ()


NO_ENDS = OwnEnds()


class UnprovenFree(SokovanError):
    """Slots were to be freed without a valid proof."""

    code = "unproven-free"
    hint = "free slots only with a proof that nothing of the kernel runs; until then they stay held"

    def __init__(self, *, kernel: str, proof: str, problem: str) -> None:
        self.kernel, self.proof, self.problem = kernel, proof, problem
        super().__init__(f"kernel {quoted(kernel)} cannot be freed by {proof}: {problem}")


class Ledger(Protocol):
    """The slots that kernels hold. The allocator takes them, only the ledger frees."""

    async def free(
        self,
        kernels: Sequence[KernelRecord],
        proof: FreeProof,
        change: Change,
        *,
        known: Mapping[SessionId, SessionRecord] | None = None,
        checkpoints: Checkpoints | None = None,
        ends: OwnEnds = NO_ENDS,
    ) -> Sequence[SessionRecord]:
        """End TERMINATING kernels with a proof and free their slots.

        Their sessions are updated with them, and returned by id. An exit code in a record that the store does
        not have yet is stored. A kernel that was freed before is skipped, so that
        repeated reports are harmless. `known` are sessions as they were read before: one that
        has not changed since is not read again. `checkpoints` are the last ones that the
        kernels reported: receipts count the lost work from them, and an evicted session whose
        first kernel was done ends well. `ends` are kernels that ended before the notice of an
        eviction. Raises UnprovenFree, StaleVersion.
        """

    async def held(self, agent_id: AgentId) -> Sequence[HeldSlot]:
        """Every unfreed line of this agent."""

    async def kernels_on(self, agent_id: AgentId) -> Sequence[KernelRecord]:
        """Every kernel that holds slots on this agent, also of ended sessions."""

    async def held_devices(self, agents: Sequence[AgentId] | None = None) -> Sequence[HeldDevice]:
        """Every unfreed hold on a device (of these agents), by agent and device.

        One that comes or goes changes the `stamp` of its agent.
        """

    async def device_times(self, agents: Sequence[AgentId], *, from_ms: int, to_ms: int, most: int) -> DeviceTimes:
        """When devices of these agents were held within a time, by agent, device and time.

        At most `most` holds. Those of sessions that are no longer stored are missing.
        """

    async def held_ports(self, scaling_group: ScalingGroupName, ports: Collection[int]) -> Sequence[HeldPort]:
        """Those of these ports that are leased or rest on agents of a scaling group.

        By port and agent, at most PORTS_LISTED_MAX.
        """

    async def usage(self, scope: Scope, name: str) -> Mapping[str, int]:
        """The slots that an owner holds, and SESSIONS_HELD."""

    async def past_usage(
        self, scaling_group: ScalingGroupName | None = None, *, names: Sequence[str] | None = None
    ) -> Sequence[PastUsage]:
        """Past usage of users, groups and queues, as stored: not decayed to now.

        Of this scaling group and of these names, or of all.
        It changes in the transactions that take and free slots, so that every attempt of a
        kernel counts once.
        """
