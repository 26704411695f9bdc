"""Commands in containers, connections to their ports, measurements, and lost ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sokovan.adapters.docker.container_ports import ContainerPortConnection
from sokovan.adapters.docker.container_traces import container_of, networks_of, remains_of, traces_of
from sokovan.adapters.docker.engine.client import EngineClient
from sokovan.adapters.docker.engine.container_use import container_use
from sokovan.adapters.docker.execution import ContainerExecution
from sokovan.adapters.docker.kernel_records import KernelRecords
from sokovan.adapters.docker.log_copies import LogCopies
from sokovan.adapters.docker.observer import ContainerObserver
from sokovan.adapters.docker.stopper import ContainerStopper
from sokovan.adapters.process.idle_times import IdleTimes
from sokovan.adapters.process.layout import KernelLayout, folder_name
from sokovan.adapters.process.ports.kernel_listeners import KnownListeners
from sokovan.adapters.process.ports.port_connection import PortConnection
from sokovan.adapters.process.shim.processes import Process, descendants, look_up
from sokovan.adapters.process.threads import Threads, Work
from sokovan.domain.ids import KernelId
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelExecution, KernelUse, RuntimeFailure


class ContainerStreams:
    """Opens commands in the containers of one root, and connections to their ports."""

    def __init__(self, engine: EngineClient, layout: KernelLayout, clock: Clock) -> None:
        self._engine, self._layout, self._clock = engine, layout, clock
        self._records, self._idle, self._threads = KernelRecords(layout), IdleTimes(clock), Threads()
        self._copies = LogCopies(engine, layout)
        self._stopper = ContainerStopper(engine, self._records, clock)
        self._networks = networks_of(engine, layout.root)
        self._observer = ContainerObserver(
            engine, self._records, clock, self._copies, self._stopper, self._idle, self._networks
        )

    @cached_property
    def _known(self) -> KnownListeners:
        return KnownListeners()

    def execute(self, kernel_id: KernelId, attempt: int, command: Sequence[str], *, terminal: bool) -> KernelExecution:
        """Run a further command inside a running kernel."""
        name = folder_name(kernel_id, attempt)

        async def container() -> str:
            return self._running(name)

        presence = self._idle.command(name)
        return ContainerExecution(
            self._engine, container, command, terminal=terminal, clock=self._clock, presence=presence
        )

    def connect(self, kernel_id: KernelId, attempt: int, port: int) -> KernelExecution:
        """Connect to a port that a running kernel listens on."""
        name = folder_name(kernel_id, attempt)
        presence = self._idle.command(name)
        own = bool((self._records.state(name) or {}).get("own_network"))
        return (ContainerPortConnection if own else PortConnection)(
            port, lambda: self._init_process(name), threads=self._threads, presence=presence, known=self._known
        )

    async def measure(self, kernel_id: KernelId, attempt: int) -> KernelUse:
        """Measure a running kernel."""
        name = folder_name(kernel_id, attempt)
        container = self._running(name)
        processes = await self._threads.run(Work.LOOK, self._processes, name)
        return await container_use(self._engine, container, now_ms=self._clock.now_ms(), processes=processes)

    def _processes(self, name: str) -> int | None:
        """The number of processes of a container; None if they cannot be seen from here."""
        first = self._init_process(name)
        return None if first is None else 1 + len(descendants(first.pid))

    async def end_remains(self, kernel_id: KernelId, attempt: int, traces: str) -> str:
        """Remove the container of a kernel whose files are gone.

        An empty text proves that nothing of it runs.
        """
        known = traces or traces_of(self._layout.root, kernel_id, attempt)
        return await remains_of(self._engine, container_of(known))

    def _running(self, name: str) -> str:
        """The container of a kernel that runs. Raises RuntimeFailure."""
        state = self._records.state(name)
        if state is None or "ended_ms" in state:
            raise RuntimeFailure("the kernel does not run", hint="run commands while the kernel runs")
        return str(state["container"])

    def _init_process(self, name: str) -> Process | None:
        """The first process of a container, which all others descend from; None if it has ended."""
        state = self._records.state(name) or {}
        found = look_up(int(state.get("pid") or 0)) if state.get("pid") else None
        return found if found is not None and found.start == state.get("pid_start") and found.alive else None
