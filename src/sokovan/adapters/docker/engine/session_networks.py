"""A network for each session of which all kernels are containers of this machine.

The kernels reach one another by `rank-0`, `rank-1` and so on. Other networks are kept apart by
the rules of the engine.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from sokovan.adapters.docker.engine.client import NOT_FOUND, EngineClient, EngineRefusal, EngineUnavailable, path_of
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.frames import CreateKernel

# Of each session: the addresses of its network, the engine's own among them.
PREFIX_BITS = 24
RANKS_MAX = 250
# Ranges of others that the engine does not list are found by trying.
TRIES_MAX = 16
_HOSTS, _HOST_FILE, _MASTER = "SOKOVAN_HOSTS", "SOKOVAN_HOSTFILE", "MASTER_ADDR"


@dataclass(frozen=True, slots=True)
class SessionNetwork:
    """The network of one session; `size` is the number of its ranks."""

    name: str
    subnet: str
    size: int
    rank: int

    def host(self, rank: int) -> str:
        """The host name of a rank."""
        return f"rank-{rank}"

    def address(self, rank: int) -> str:
        """The address of a rank; the first one is the engine's."""
        return str(ipaddress.IPv4Network(self.subnet)[2 + rank])

    def options(self) -> dict[str, Any]:
        """The part of a container's description with its place in the network."""
        place = {"IPAMConfig": {"IPv4Address": self.address(self.rank)}, "Aliases": [self.host(self.rank)]}
        return {"Hostname": self.host(self.rank), "NetworkingConfig": {"EndpointsConfig": {self.name: place}}}

    def hosts(self) -> list[str]:
        """The names of all ranks with their addresses."""
        return [f"{self.host(rank)}:{self.address(rank)}" for rank in range(self.size)]

    def named(self, launch: CreateKernel) -> CreateKernel:
        """The launch with the names of this network in place of the machine's address."""
        names = [self.host(rank) for rank in range(self.size)]
        variables = {**launch.environment, _HOSTS: ",".join(names), _MASTER: names[0]}
        file = launch.environment.get(_HOST_FILE, "")
        files = {**launch.files, file: "".join(f"{name} slots=1\n" for name in names)} if file else launch.files
        return replace(launch, environment=variables, files=files)


def ranks_of(launch: CreateKernel) -> tuple[int, int] | None:
    """The rank of a kernel and their number; None if it shares the machine's network."""
    rank, size = launch.environment.get("SOKOVAN_RANK", ""), launch.environment.get("SOKOVAN_SIZE", "")
    if not launch.own_network or launch.isolated_network or not rank.isdecimal() or not size.isdecimal():
        return None
    return (int(rank), int(size)) if int(rank) < int(size) <= RANKS_MAX else None


class SessionNetworks:
    """The networks of one runtime, which have its `label`.

    They take ranges from `pool`; without one there are none.
    """

    pool = ""

    def __init__(self, engine: EngineClient, label: tuple[str, str], session_label: str) -> None:
        self._engine, self._label, self._session_label = engine, label, session_label
        self._starting: Counter[str] = Counter()
        self._creating = asyncio.Lock()

    @asynccontextmanager
    async def used(self, launch: CreateKernel) -> AsyncIterator[SessionNetwork | None]:
        """The network of a kernel that starts; None if it shares that of the machine.

        It is not removed until the context is left. Raises RuntimeFailure.
        """
        ranks = ranks_of(launch) if self.pool else None
        if ranks is None:
            yield None
            return
        session = launch.session_id
        self._starting[session] += 1
        try:
            name = self._name(session)
            async with self._creating:
                subnet = await self._subnet(name) or await self._created(name, session)
            yield SessionNetwork(name, subnet, rank=ranks[0], size=ranks[1])
        finally:
            self._starting[session] -= 1

    async def sweep(self, sessions: Collection[str]) -> None:
        """Remove the networks of sessions that have no container."""
        if not self.pool:
            return
        for one in await self._listed({"label": ["=".join(self._label)]}):
            session = str((one.get("Labels") or {}).get(self._session_label, ""))
            if session not in sessions and not self._starting[session]:
                # One that is still in use is refused, and tried again.
                with suppress(EngineRefusal, EngineUnavailable):
                    await self._engine.call("DELETE", path_of("networks", str(one.get("Id"))))
        self._starting += Counter()  # without those at 0

    def _name(self, session: str) -> str:
        return f"sokovan-{self._label[1]}-{hashlib.sha256(session.encode()).hexdigest()[:16]}"

    async def _subnet(self, name: str) -> str:
        """The range of a network; empty if there is none of this name."""
        try:
            about = await self._engine.call("GET", path_of("networks", name))
        except EngineRefusal as problem:
            if problem.status == NOT_FOUND:
                return ""
            raise
        return next(_subnets(about), "")

    async def _created(self, name: str, session: str) -> str:
        taken = [ipaddress.ip_network(text) for one in await self._listed({}) for text in _subnets(one)]
        tried, problem = 0, f"all of {self.pool} is in use"
        for subnet in ipaddress.IPv4Network(self.pool).subnets(new_prefix=PREFIX_BITS):
            if any(one.version == subnet.version and subnet.overlaps(one) for one in taken):
                continue
            body = {
                "Name": name,
                "Driver": "bridge",
                "CheckDuplicate": True,
                "Labels": {self._label[0]: self._label[1], self._session_label: session},
                "IPAM": {"Config": [{"Subnet": str(subnet)}]},
            }
            try:
                await self._engine.call("POST", "/networks/create", body=body)
            except EngineRefusal as refused:
                tried, problem = tried + 1, refused.problem
                if tried < TRIES_MAX:
                    continue
                break
            return str(subnet)
        raise RuntimeFailure(
            f"the engine cannot create a network for the session: {problem}",
            hint="give the agent another range in agent.session_networks, or none",
        )

    async def _listed(self, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._engine.call(
            "GET", "/networks", query={"filters": json.dumps(filters)} if filters else {}
        )
        return found or []


def _subnets(about: dict[str, Any]) -> Iterator[str]:
    for one in (about.get("IPAM") or {}).get("Config") or ():
        if one.get("Subnet"):
            yield str(one["Subnet"])
