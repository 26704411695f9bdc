"""An agent at work: machine, journal, judgement and links, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sokovan.agent import machine
from sokovan.agent.event_processor import EventProcessor
from sokovan.agent.executor import Executor
from sokovan.agent.instructions import Instruction, SendAnswer, SendHeartbeat, SendProblem
from sokovan.agent.inventory import Inventory, empty_holdings
from sokovan.agent.journal import Journal
from sokovan.agent.kernel_table import Token, restored
from sokovan.agent.link.bulk import BulkService
from sokovan.agent.link.manager_link import ManagerAddress, ManagerLink
from sokovan.agent.link.translation import event_of, heartbeat_of, hello_of, reply_of
from sokovan.agent.messages import LinkClosed, LinkOpened, ObstacleObserved
from sokovan.agent.watcher import RuntimeView, Watcher
from sokovan.domain.errors import SokovanError
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import KernelRuntime
from sokovan.wire.frames import CreateKernel, Heartbeat, Hello, OpenStream, ReadLog, Request, Welcome


def _say_nothing(_line: str) -> None:
    """Where nobody listens."""


@dataclass(frozen=True, slots=True)
class AgentEnvironment:
    """What an agent has around it, beside its machine.

    `root` is the folder whose disk must have space. `chance` gives numbers from 0 up
    to 1, for the moments of dialling again; `tell` takes lines for people.
    """

    root: Path
    clock: Clock
    chance: Callable[[], float]
    tell: Callable[[str], None] = _say_nothing
    sight: RuntimeView = field(default_factory=RuntimeView)


class AgentRunner:
    """One agent, from its journal to its links. The caller closes the journal."""

    def __init__(
        self, inventory: Inventory, runtime: KernelRuntime, journal: Journal, surroundings: AgentEnvironment
    ) -> None:
        self._inventory, self._runtime, self._around = inventory, runtime, surroundings
        holdings = restored(empty_holdings(inventory), journal.memory)
        self._judge = EventProcessor(holdings, journal, surroundings.clock, carry_out=self._carry_out)
        self._watcher = Watcher(
            runtime,
            surroundings.clock,
            surroundings.sight,
            tick=lambda: self._judge.holdings.tick,
            submit=self._judge.submit,
            tell=surroundings.tell,
        )
        self._executor = Executor(runtime, submit=self._judge.submit, look=self._watcher.look, tell=surroundings.tell)
        self._bulk = BulkService(runtime)
        self._links: dict[int, ManagerLink] = {}
        self._links_ever = 0
        self._sequence = 0

    async def run(self, managers: Sequence[ManagerAddress]) -> None:
        """Work until cancelled; kernels go on after that.

        Nobody is dialled before the machine was looked at.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._judge.run())
                tasks.create_task(self._watcher.run())
                await self._judge.seen.wait()
                for address in managers:
                    link = ManagerLink(address, self, self._around.clock, chance=self._around.chance)
                    tasks.create_task(link.run())
        finally:
            await self._executor.close()

    def hello(self) -> Hello:
        """What to begin a link with."""
        return hello_of(self._inventory, self._judge.holdings)

    def heartbeat(self) -> Heartbeat:
        """What runs now."""
        self._sequence += 1
        load = machine.load_figures(self._around.root)
        return heartbeat_of(self._judge.holdings, sequence=self._sequence, load=load)

    def opened(self, link: ManagerLink, welcome: Welcome) -> None:
        """A manager has welcomed the agent.

        Each opening has a number of its own: requests do not outlive their link.
        """
        self._links_ever += 1
        link.number = self._links_ever
        self._links[link.number] = link
        self._judge.submit(LinkOpened(link.number, welcome.incarnation))
        if welcome.draining:
            self.tell(f"{link.address.url} drains this agent: it gets no new kernels")

    def asked(self, link: ManagerLink, request: Request) -> None:
        """A manager wants something."""
        token = Token(link.number, request.number)
        if isinstance(request.ask, ReadLog | OpenStream):
            self._executor.begin(self._bulk.serve(link, request))
            return
        if isinstance(request.ask, CreateKernel):
            obstacle = machine.disk_obstacle(self._around.root)
            if obstacle != self._judge.holdings.obstacle:
                self._judge.submit(ObstacleObserved(obstacle))
        try:
            event = event_of(request, token)
        except SokovanError as problem:  # a launch that cannot be
            self._problem(token, problem.code, problem.message)
            return
        if event is not None:
            self._judge.submit(event)

    def closed(self, link: ManagerLink) -> None:
        """A link is over."""
        self._links.pop(link.number, None)
        self._judge.submit(LinkClosed(link.number))

    def tell(self, line: str) -> None:
        """Something that people may want to know."""
        self._around.tell(line)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case SendAnswer():
                link = self._links.get(instruction.token.link)
                if link is not None:
                    link.answer(instruction.token.number, reply_of(instruction.word))
            case SendProblem():
                self._problem(instruction.token, instruction.code, instruction.message)
            case SendHeartbeat():
                for link in self._links.values():
                    link.beat()
            case _:
                self._executor.carry_out(instruction)

    def _problem(self, token: Token, code: str, message: str) -> None:
        link = self._links.get(token.link)
        if link is not None:
            link.problem(token.number, code, message)
