"""One fake agent: the real admission and supervisor over a simulated runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from sokovan.agent.admission import wrong_incarnation
from sokovan.agent.fake.device_use import simulated_figures
from sokovan.agent.fake.event_queue import EventQueue
from sokovan.agent.fake.in_memory_agent import InMemoryAgent, empty_table_of
from sokovan.agent.fake.script import WORK_S, KernelScript, script_of
from sokovan.agent.journal_records import KernelKey
from sokovan.agent.kernel_table import KeepLimits, Token, reports
from sokovan.agent.messages import Event, LinkOpened, Observed, StartFinished
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.records import Device
from sokovan.ports.agent_gateway import AgentRefused, GoneProof, ImageReport, ImageState
from sokovan.ports.agent_states import AgentState
from sokovan.ports.runtime import KILLED, KernelState, KernelUse, LogPart, Observation
from sokovan.wire.frames import CreateKernel

TERMINATED = 143
# Ended kernels that are kept: as much as by default of those of real agents.
KEEP = KeepLimits(1_000, 3_600)
# Requests are answered before the next one is applied, so that all share one token.
TOKEN = Token(1, 1)


def fake_output(agent_id: AgentId, command: Sequence[str]) -> bytes:
    """The output of a fake kernel, which shows that nothing really runs."""
    return f"fake agent {agent_id} only simulates {list(command)}\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeAgentTiming:
    """How long simulated operations take, and the output of fake kernels.

    Changes caused by requests are reported within `report_s`, together with later ones.
    """

    start_s: float = 0.05
    stop_s: float = 0.02
    work_s: float = WORK_S
    report_s: float = 0.05
    heartbeat_s: float = 5.0
    output: Callable[[AgentId, Sequence[str]], bytes] = fake_output


@dataclass(slots=True)
class FakeKernel:
    """A kernel of the simulated runtime; `ended` is set when it has ended.

    `began_ms` is when it began to run, by the clock of the event queue.
    """

    launch: CreateKernel
    script: KernelScript
    state: KernelState = KernelState.STARTING
    exit_code: int | None = None
    began_ms: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class FakeAgent(InMemoryAgent):
    """A fake agent of a fleet; no method waits.

    `changed` is called when an observation is due. `is_report_due` is set when a heartbeat is.
    """

    def __init__(
        self,
        info: AgentInfo,
        devices: tuple[Device, ...],
        queue: EventQueue,
        timing: FakeAgentTiming,
        *,
        changed: Callable[[FakeAgent], None],
    ) -> None:
        super().__init__(empty_table_of(info, devices))
        self.info, self.devices = info, devices
        self.kernels: dict[KernelKey, FakeKernel] = {}
        self.is_report_due = False
        self._queue, self._timing, self._changed = queue, timing, changed
        self._sequence = 0
        self._outcome: GoneProof | ImageReport | AgentRefused | None = None
        self.observe()

    def welcome(self, incarnation: int) -> None:
        """A manager has accepted the agent as this incarnation."""
        self._sequence = 0
        self.apply(LinkOpened(1, incarnation, KEEP))

    def request(self, event: Event) -> GoneProof | None:
        """Apply a request and return its result. Raises AgentRefused."""
        self.apply(event)
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, AgentRefused):
            raise outcome
        return outcome if isinstance(outcome, GoneProof) else None

    def observe(self) -> None:
        """Reconcile the kernel table with the simulated runtime."""
        observations = tuple(
            Observation(key.kernel_id, key.attempt, kernel.state, exit_code=kernel.exit_code)
            for key in self.table.kernels
            if (kernel := self.kernels.get(key)) is not None
        )
        self.apply(Observed(observations, begun=self.table.tick, now_ms=0))

    def heartbeat(self) -> AgentState:
        """The state for the next heartbeat."""
        self._sequence += 1
        self.is_report_due = False
        figures = simulated_figures(self.devices, self._working(), now_ms=self._queue.now_ms())
        return AgentState(self.agent_id, self.incarnation, self._sequence, reports(self.table), devices=figures)

    def log(self, key: KernelKey, *, offset: int, limit: int) -> LogPart:
        """A part of the output of a kernel. Raises AgentRefused."""
        kernel = self.kernels.get(key)
        if kernel is None:
            raise self.refusal("runtime-failure", f"{key} does not exist here")
        started = kernel.state is not KernelState.STARTING
        output = self._timing.output(self.agent_id, kernel.launch.command) if started else b""
        piece = output[max(0, offset) :][: max(0, limit)]
        at_end = max(0, offset) + len(piece) >= len(output)
        return LogPart(offset, piece, end=kernel.state is KernelState.EXITED and at_end)

    def use(self, key: KernelKey, *, now_ms: int) -> KernelUse:
        """Simulated use of a kernel: its cores all the time, and half of its memory.

        Raises AgentRefused.
        """
        kernel = self.running(key)
        slots, started = kernel.launch.slots, kernel.state is not KernelState.STARTING
        ran_ms = self._queue.now_ms() - kernel.began_ms if started else 0
        return KernelUse(now_ms, slots.get("cpu", 0) * ran_ms // 1000, slots.get("mem", 0) // 2, int(started))

    def running(self, key: KernelKey) -> FakeKernel:
        """A kernel that runs or is being started. Raises AgentRefused."""
        kernel = self.kernels.get(key)
        if kernel is None or kernel.state is KernelState.EXITED:
            raise self.refusal("runtime-failure", f"{key} does not run")
        return kernel

    def _working(self) -> Iterator[tuple[str, str]]:
        """The devices of running kernels, each with its kernel."""
        for key, kernel in self.kernels.items():
            if kernel.state is KernelState.RUNNING:
                yield from ((device, key.kernel_id) for ids in kernel.launch.devices.values() for device in ids)

    def _start_kernel(self, launch: CreateKernel) -> None:
        """Start a kernel; it runs after `start_s`."""
        key = KernelKey.of(launch)
        self.kernels[key] = FakeKernel(launch, script_of(launch.command, work_s=self._timing.work_s))
        self._queue.after(self._timing.start_s, partial(self._run, key))
        self.apply(StartFinished(key))

    def _stop_kernel(self, key: KernelKey, grace_s: float) -> None:
        """Stop a kernel; it ends after `stop_s`."""
        exit_code = TERMINATED if grace_s > 0 else KILLED
        self._queue.after(self._timing.stop_s, partial(self._end, key, exit_code))

    def _forget_kernel(self, key: KernelKey) -> None:
        """Remove an ended kernel."""
        self.kernels.pop(key, None)

    def image(self, incarnation: int, image: str) -> ImageReport:
        """The state of an image, which is always ready. Raises AgentRefused."""
        refusal = wrong_incarnation(self.table, incarnation)
        if refusal is not None:
            raise self.refusal(*refusal)
        return ImageReport(image, ImageState.READY)

    def _answer(self, token: Token, outcome: GoneProof | ImageReport | AgentRefused | None) -> None:
        """Keep the outcome of the request that is being applied."""
        del token
        self._outcome = outcome

    def _send_heartbeat(self) -> None:
        """Note that a heartbeat is due; the fleet sends it."""
        self.is_report_due = True

    def _run(self, key: KernelKey) -> None:
        kernel = self.kernels.get(key)
        if kernel is None or kernel.state is not KernelState.STARTING:
            return
        kernel.state, kernel.began_ms = KernelState.RUNNING, self._queue.now_ms()
        self._changed(self)
        if kernel.script.lasts_s is not None:
            self._queue.after(kernel.script.lasts_s, partial(self._end, key, kernel.script.exit_code))

    def _end(self, key: KernelKey, exit_code: int) -> None:
        kernel = self.kernels.get(key)
        if kernel is None or kernel.state is KernelState.EXITED:
            return
        kernel.state, kernel.exit_code = KernelState.EXITED, exit_code
        # Ended kernels are kept for their output: thousands of them, each with an environment of its own.
        kernel.launch = structs.replace(kernel.launch, environment={}, files={})
        kernel.ended.set()
        self._changed(self)
