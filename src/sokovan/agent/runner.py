"""Runs an agent: journal, event processor, watcher, executor and links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.agent import machine
from sokovan.agent.event_processor import EventProcessor
from sokovan.agent.executor import Executor
from sokovan.agent.inventory import Inventory, empty_table
from sokovan.agent.journal import Journal
from sokovan.agent.kernel_table import KeepLimits, Token, restored
from sokovan.agent.link.command_streams import BulkService
from sokovan.agent.link.manager_addresses import ManagerAddresses
from sokovan.agent.link.manager_link import ManagerAddress, ManagerLink
from sokovan.agent.link.translation import Figures, event_of, heartbeat_of, hello_of, reply_of
from sokovan.agent.messages import (
    DevicesChecked,
    Instruction,
    LinkClosed,
    LinkOpened,
    ObstacleObserved,
    SendAnswer,
    SendHeartbeat,
    SendProblem,
)
from sokovan.agent.watcher import Watcher, WatchOptions
from sokovan.domain.errors import SokovanError
from sokovan.ports.environment import Clock
from sokovan.ports.kernel_files import KernelFiles
from sokovan.ports.runtime import KernelRuntime
from sokovan.wire.frames import (
    CreateKernel,
    Heartbeat,
    Hello,
    ListFiles,
    MeasureKernel,
    OpenStream,
    PlaceUpload,
    ReadFile,
    ReadLog,
    Request,
    Welcome,
)

# How long load figures count: heartbeats are sent with each change, too.
LOAD_MS = 1000


def _discard(_line: str) -> None:
    """The default log: discards lines."""


@dataclass(frozen=True, slots=True)
class AgentEnvironment:
    """The environment of an agent.

    `root` is the folder whose disk must have free space. `jitter` returns numbers in
    [0, 1) that spread reconnects; `log` takes lines for the operator; `files` are those of
    the kernels. `keyed` takes the key of the tickets for ports of kernels.
    """

    root: Path
    clock: Clock
    jitter: Callable[[], float]
    log: Callable[[str], None] = _discard
    watch: WatchOptions = field(default_factory=WatchOptions)
    files: KernelFiles | None = None
    keyed: Callable[[str], None] = _discard


class AgentRunner:
    """One agent with its links. The caller closes the journal."""

    def __init__(
        self, inventory: Inventory, runtime: KernelRuntime, journal: Journal, environment: AgentEnvironment
    ) -> None:
        self._inventory, self._runtime, self._environment = inventory, runtime, environment
        table = restored(empty_table(inventory), journal.state)
        self._processor = EventProcessor(table, journal, environment.clock, execute=self._execute)
        self._watcher = Watcher(
            runtime,
            environment.clock,
            environment.watch,
            tick=lambda: self._processor.table.tick,
            submit=self._processor.submit,
            log=environment.log,
        )
        self._executor = Executor(
            runtime,
            submit=self._processor.submit,
            observe_soon=self._watcher.observe_soon,
            started=self._watcher.started,
            log=environment.log,
        )
        self._bulk = BulkService(runtime, environment.files)
        self._managers = ManagerAddresses(())
        self._links: dict[int, ManagerLink] = {}
        self._links_ever = 0
        self._sequence = 0
        self._load: dict[str, int] = {}
        self._load_due_ms = 0
        self._devices: Figures = {}

    async def run(self, managers: Iterable[ManagerAddress]) -> None:
        """Run until cancelled; kernels keep running after that.

        No manager is dialled before the first observation. Managers that are announced later
        are dialled then, and links to those that are removed are closed.
        """
        if isinstance(managers, ManagerAddresses):
            self._managers = managers
        else:
            self._managers = ManagerAddresses(managers)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._processor.run())
                tasks.create_task(self._watcher.run())
                await self._processor.observed.wait()
                await self._keep_links(tasks)
        finally:
            await self._executor.close()

    async def _keep_links(self, tasks: asyncio.TaskGroup) -> None:
        """Keep a link to each manager; runs until cancelled."""
        links: dict[ManagerAddress, asyncio.Task[None]] = {}
        while True:
            wanted = list(self._managers)
            for address in [one for one in links if one not in wanted]:
                self.log(f"{address.url} is no manager of this cluster any more")
                links.pop(address).cancel()
            for address in wanted:
                if address not in links:
                    link = ManagerLink(address, self, self._environment.clock, jitter=self._environment.jitter)
                    links[address] = tasks.create_task(link.run())
            await self._managers.changed()

    def hello(self) -> Hello:
        """The first frame of a link."""
        return hello_of(self._inventory, self._processor.table)

    def heartbeat(self) -> Heartbeat:
        """The current kernels, images, load and figures of devices."""
        self._sequence += 1
        now_ms = self._environment.clock.monotonic_ms()
        if now_ms >= self._load_due_ms:
            self._load, self._load_due_ms = machine.load_figures(self._environment.root), now_ms + LOAD_MS
        return heartbeat_of(self._processor.table, sequence=self._sequence, load=self._load, devices=self._devices)

    def devices_checked(self, faults: Mapping[str, str]) -> None:
        """Report the faults of devices, and start no kernels on these, from now on."""
        if faults != self._processor.table.device_faults:
            self._processor.submit(DevicesChecked(faults))

    def devices_measured(self, figures: Figures) -> None:
        """Report what devices do with the next heartbeats."""
        self._devices = figures

    def opened(self, link: ManagerLink, welcome: Welcome) -> None:
        """A manager has accepted the agent.

        Each opening has its own number: requests do not outlive their link.
        """
        self._links_ever += 1
        link.number = self._links_ever
        self._links[link.number] = link
        if welcome.data_key:
            self._environment.keyed(welcome.data_key)
        keep = None if welcome.kept_max is None else KeepLimits(welcome.kept_max, welcome.kept_s)
        self._processor.submit(LinkOpened(link.number, welcome.incarnation, keep))
        linked = {one.address.url for one in self._links.values()}
        for url in self._managers.announce(link.address.url, welcome.managers, linked):
            self.log(f"{link.address.url} names a manager that is no address: {url}")
        if welcome.draining:
            self.log(f"{link.address.url} drains this agent: it receives no new kernels")

    def requested(self, link: ManagerLink, request: Request) -> None:
        """Handle a request of a manager."""
        token = Token(link.number, request.number)
        if isinstance(request.command, ReadLog | MeasureKernel | OpenStream | ListFiles | ReadFile | PlaceUpload):
            self._executor.begin(self._bulk.serve(link, request))
            return
        if isinstance(request.command, CreateKernel):
            obstacle = machine.disk_obstacle(self._environment.root)
            if obstacle != self._processor.table.obstacle:
                self._processor.submit(ObstacleObserved(obstacle))
        try:
            event = event_of(request, token)
        except SokovanError as problem:  # an invalid launch
            self._problem(token, problem.code, problem.message)
            return
        if event is not None:
            self._processor.submit(event)

    def closed(self, link: ManagerLink) -> None:
        """A link was closed."""
        self._links.pop(link.number, None)
        self._processor.submit(LinkClosed(link.number))

    def log(self, line: str) -> None:
        """Log a line for the operator."""
        self._environment.log(line)

    def _execute(self, instruction: Instruction) -> None:
        match instruction:
            case SendAnswer():
                link = self._links.get(instruction.token.link)
                if link is not None:
                    link.answer(instruction.token.number, reply_of(instruction.result))
            case SendProblem():
                self._problem(instruction.token, instruction.code, instruction.message)
            case SendHeartbeat():
                for link in self._links.values():
                    link.send_heartbeat()
            case _:
                self._executor.execute(instruction)

    def _problem(self, token: Token, code: str, message: str) -> None:
        link = self._links.get(token.link)
        if link is not None:
            link.problem(token.number, code, message)
