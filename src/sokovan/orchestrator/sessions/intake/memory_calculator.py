"""Computes the memory of a kernel whose request names none.

A kernel gets the share of an agent's memory that it requests of the agent's accelerators,
else of its cpus; a scaling group may set fixed amounts per device and per cpu instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.slot_notation import kind_of
from sokovan.domain.slots import SlotLimits, is_accelerator
from sokovan.orchestrator.sessions.intake.kernel_groups import kernel_groups
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.reference_validators import queue_of
from sokovan.orchestrator.sessions.intake.resource_calculator import CPU, DEFAULTS, MEMORY
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery

MIB = 1 << 20
# The part of an agent's memory that is divided among its accelerators. The rest stays free for
# sessions without one: otherwise one session per device would fill the agent.
ACCELERATED_NUMERATOR, ACCELERATED_DENOMINATOR = 3, 4


@dataclass(frozen=True, slots=True)
class MemoryDefaults:
    """The default memory of the kernels of one session.

    `limits` are those that apply to the whole session of `kernels` kernels: the default
    stays inside them, so that it is never the reason why a session cannot start.
    """

    pool: Pool
    scaling_group: ScalingGroup
    limits: tuple[SlotLimits, ...] = ()
    kernels: int = 1

    def bytes_for(self, slots: Mapping[str, int]) -> int:
        """The memory of a kernel that requests these slots besides, in whole MiB."""
        basis = [slot for slot, amount in sorted(slots.items()) if amount and is_accelerator(slot)] or [CPU]
        shares = [share for slot in basis for share in self._shares(slot, slots.get(slot, 0))]
        given = max(DEFAULTS[MEMORY], min(shares, default=0) // MIB * MIB)
        return min([given, *(most for limit in self.limits for most in self._limited(limit, basis, slots))])

    def _shares(self, slot: str, asked: int) -> Iterable[int]:
        """The default by each size of agent that can hold this amount of a slot."""
        per_unit = self.scaling_group.mem_per_gpu_bytes if slot != CPU else self.scaling_group.mem_per_cpu_bytes
        for capacity, memory in self.pool.memory.get(slot, {}).items():
            if asked > capacity:
                continue
            if per_unit is not None:
                yield min(memory, per_unit * asked // kind_of(slot).parts)
            elif slot == CPU:
                yield memory * asked // capacity
            else:
                yield memory * asked * ACCELERATED_NUMERATOR // (capacity * ACCELERATED_DENOMINATOR)

    def _limited(self, limit: SlotLimits, basis: Iterable[str], slots: Mapping[str, int]) -> Iterable[int]:
        """The share of a limit on memory; none if even a single MiB exceeds it."""
        each = limit[MEMORY] // max(1, self.kernels) if MEMORY in limit else 0
        if each < MIB:
            return
        shares = [limit[MEMORY] * slots.get(slot, 0) // limit[slot] for slot in basis if limit[slot] and slot in limit]
        most = max(min(shares), min(each, DEFAULTS[MEMORY])) if shares else each
        yield most // MIB * MIB


def memory_defaults(query: IntakeQuery) -> MemoryDefaults | None:
    """The defaults of a request in its scaling group; None if it has no agents."""
    scaling_group = query.scaling_group
    pool = None if scaling_group is None else query.context.pools.get(scaling_group.name)
    if pool is None or scaling_group is None:
        return None
    policies = [policy for _, policy in query.context.policies]
    limits = [limit for policy in policies for limit in (policy.slots_max, policy.pending_slots_max)]
    limits += [queue.capability for queue in _line(query.context.queues, queue_of(query))]
    size = sum(group.size for group in kernel_groups(query.request))
    return MemoryDefaults(pool, scaling_group, tuple(limits), size)


def _line(queues: Iterable[Queue], name: str) -> list[Queue]:
    """A queue and those above it; ends at a parent that is missing or seen before."""
    known = {queue.name: queue for queue in queues}
    found: list[Queue] = []
    queue = next((queue for queue in known.values() if queue.name == name), None)
    while queue is not None and queue not in found:
        found.append(queue)
        queue = known.get(queue.parent)
    return found
