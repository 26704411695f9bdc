"""Fake agents that have joined: real links with TLS to every manager, simulated kernels.

`python -m benchmarks.linked_fleet` reads a `FleetPlan` as JSON from its input, joins a
machine for each token, and runs until it is terminated.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import fraction
from sokovan.agent.fake.event_queue import EventQueue
from sokovan.agent.fake.fake_agent import KEEP, TOKEN, FakeAgent, FakeAgentTiming
from sokovan.agent.inventory import Inventory
from sokovan.agent.link.manager_link import ManagerLink
from sokovan.agent.link.translation import event_of, heartbeat_of, hello_of, reply_of
from sokovan.agent.messages import LinkOpened
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, AgentId
from sokovan.domain.slots import ResourceSlot
from sokovan.entrypoints.joining.joined_agent import JoinedMachine, join_machine
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.wire.frames import Heartbeat, Hello, PrepareImage, Request, Welcome

SLOTS = ResourceSlot({"cpu": 64_000, "mem": 512 << 30})
JOINING = 8
_NUMBERS = re.compile(r"\d+")
# The file in the fleet's folder that counts what became of dials, and how often it is written.
COUNTS, COUNTED_EVERY_S = "counts.json", 1.0
# Links that are opened at once. The agents share one process here: it must not be what limits them.
OPENING = 64


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Where machines join, the tokens, one for each, and a folder for their identities."""

    url: str
    authority: str
    tokens: list[str]
    folder: str


class LinkedFake:
    """A fake agent, as its links to managers see it."""

    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self, name: str, queue: EventQueue, changed: set[LinkedFake], opening: asyncio.Semaphore) -> None:
        info = AgentInfo(AgentId(name), SLOTS)
        self.agent = FakeAgent(info, (), queue, FakeAgentTiming(), changed=lambda _agent: self._changed(queue))
        self._inventory = Inventory(AgentId(name), SLOTS, ARCHITECTURE_DEFAULT, identity=name, process=name)
        self._waiting, self._links, self._sequence = changed, set[ManagerLink](), 0
        self._opening, self._opened = opening, set[str]()

    def hello(self) -> Hello:
        """The first frame of a link."""
        return hello_of(self._inventory, self.agent.table)

    def heartbeat(self) -> Heartbeat:
        """The kernels of the agent."""
        self._sequence += 1
        return heartbeat_of(self.agent.table, sequence=self._sequence, load={}, devices={})

    def opened(self, link: ManagerLink, welcome: Welcome) -> None:
        """A manager has accepted the agent."""
        self.counts["opened"] += 1
        self._links.add(link)
        if link.address.url not in self._opened:
            self._opened.add(link.address.url)
            self._opening.release()
        self.agent.apply(LinkOpened(1, welcome.incarnation, KEEP))
        self.report()

    def requested(self, link: ManagerLink, request: Request) -> None:
        """Answer at once."""
        try:
            if isinstance(request.command, PrepareImage):
                reply = reply_of(self.agent.image(request.incarnation, request.command.image))
            else:
                event = event_of(request, TOKEN)
                reply = reply_of(None if event is None else self.agent.request(event))
        except AgentRefused as refused:
            link.problem(request.number, refused.reason, refused.problem)
        except SokovanError as problem:
            link.problem(request.number, problem.code, problem.message)
        else:
            link.answer(request.number, reply)
        self.report()

    def closed(self, link: ManagerLink) -> None:
        """The link was closed; it reconnects."""
        self.counts["closed"] += 1
        self._links.discard(link)

    def log(self, line: str) -> None:
        """Count the reasons of failed dials and closed links."""
        self.counts[_NUMBERS.sub("", line.partition(": ")[2])[:80]] += 1

    def observe(self) -> None:
        """Take over what the simulated kernels did."""
        self.agent.observe()
        self.report()

    def report(self) -> None:
        """Send a heartbeat if something has changed."""
        if self.agent.is_report_due:
            self.agent.is_report_due = False
            for link in self._links:
                link.send_heartbeat()

    def _changed(self, queue: EventQueue) -> None:
        self._waiting.add(self)
        queue.wake()


async def joined(plan: FleetPlan) -> list[JoinedMachine]:
    """Join a machine for each token."""
    places = asyncio.Semaphore(JOINING)

    async def one(number: int, token: str) -> JoinedMachine:
        name = f"n{number:04}"
        async with places:
            folder = Path(plan.folder) / name
            return await join_machine(plan.url, token=token, authority=plan.authority, agent_id=name, folder=folder)

    return list(await asyncio.gather(*[one(number, token) for number, token in enumerate(plan.tokens)]))


async def run(plan: FleetPlan) -> None:
    """Join, then run the agents until cancelled."""
    clock = SystemClock()
    queue, changed = EventQueue(clock), set[LinkedFake]()
    machines = await joined(plan)
    opening = asyncio.Semaphore(OPENING)

    async def link_all() -> None:
        for machine in machines:
            fake = LinkedFake(machine.agent_id, queue, changed, opening)
            for address in machine.addresses(machine.context()):
                await opening.acquire()
                tasks.create_task(ManagerLink(address, fake, clock, jitter=fraction).run())

    async def write_counts() -> None:
        while True:
            await clock.sleep(COUNTED_EVERY_S)
            (Path(plan.folder) / COUNTS).write_bytes(msgspec.json.encode(LinkedFake.counts))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(link_all())
        tasks.create_task(write_counts())
        while True:
            for action in queue.due():
                action()
            due = list(changed)
            changed.clear()
            for fake in due:
                fake.observe()
            await queue.wait()


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(sys.stdin.buffer.read(), type=FleetPlan)))
