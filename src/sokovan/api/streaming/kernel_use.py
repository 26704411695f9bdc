"""Asks agents for the use of kernels, once per second for all who ask for one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.records import KernelRecord
from sokovan.ports.agent_gateway import UseGateway
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelUse

# A measurement answers every request for so long.
SHARED_MS = 1000
# Measurements that this process asks agents for at a time; more wait.
AT_ONCE = 64
# A measurement that takes longer, its wait included, is given up.
LIMIT_S = 10.0

# The use of a kernel, or why it is not known.
Measured: TypeAlias = KernelUse | str


@dataclass(frozen=True, slots=True)
class _Sample:
    """A measurement that was asked for; its task never fails."""

    asked_ms: int
    task: asyncio.Task[Measured]


class KernelMeter:
    """Measures kernels for all requests of one API process."""

    def __init__(self, gateway: UseGateway, clock: Clock, *, limit_s: float = LIMIT_S) -> None:
        self._gateway, self._clock, self._limit_s = gateway, clock, limit_s
        self._places = asyncio.Semaphore(AT_ONCE)
        # In the order in which they were asked for, so that the oldest is the first.
        self._samples: dict[tuple[KernelId, int], _Sample] = {}

    async def measured(self, kernels: Sequence[KernelRecord]) -> list[Measured]:
        """The use of each kernel, or a text that says why it is not known."""
        return await asyncio.gather(*[self._measured(kernel) for kernel in kernels])

    async def _measured(self, kernel: KernelRecord) -> Measured:
        if kernel.status in KERNEL.terminal:
            return "the kernel has ended"
        if kernel.agent_id is None or not kernel.sent:
            return "the kernel has not started"
        now_ms = self._clock.monotonic_ms()
        self._drop(now_ms)
        key = (kernel.kernel_id, kernel.attempt)
        sample = self._samples.get(key)
        if sample is None or _is_over(sample, now_ms):
            self._samples.pop(key, None)
            task = asyncio.ensure_future(self._asked(kernel.agent_id, *key))
            sample = self._samples[key] = _Sample(now_ms, task)
        # Others may wait for it, too.
        return await asyncio.shield(sample.task)

    async def _asked(self, agent_id: AgentId, kernel_id: KernelId, attempt: int) -> Measured:
        try:
            async with asyncio.timeout(self._limit_s), self._places:
                return await self._gateway.measure(agent_id, kernel_id, attempt)
        except SokovanError as problem:
            return problem.message
        except TimeoutError:
            return f"agent {agent_id} did not answer in time"
        except Exception as problem:  # noqa: BLE001  # one broken answer must not fail those of other kernels
            return f"agent {agent_id}: {type(problem).__name__}"

    def _drop(self, now_ms: int) -> None:
        """Drop the oldest samples that answer no request any more."""
        while self._samples and _is_over(next(iter(self._samples.values())), now_ms):
            del self._samples[next(iter(self._samples))]


def _is_over(sample: _Sample, now_ms: int) -> bool:
    return sample.task.done() and now_ms - sample.asked_ms >= SHARED_MS
