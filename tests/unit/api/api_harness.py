"""The API over a real store, with three tenants, and clients that speak ASGI to it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from fastapi import FastAPI

from sokovan.adapters.inprocess.agents import InProcessAgentStates
from sokovan.adapters.inprocess.events import InProcessEventBus
from sokovan.adapters.inprocess.hints import InProcessHints
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.api.access.authentication import new_token, token_digest
from sokovan.api.app import make_app
from sokovan.api.context import ApiDependencies
from sokovan.api.settings import ApiSettings, StreamLimits
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.ids import AccessKey, QueueName
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, Role, User
from sokovan.entrypoints.serving import serving_controllers
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.explain.plan import DryRuns
from sokovan.orchestrator.sessions.intake.names import name_of
from sokovan.orchestrator.sessions.intake.submissions import Submissions
from sokovan.ports.environment import Clock
from sokovan.testing.stored_cluster import StoredCluster
from tests.unit.api.fake_agents import FakeAgents
from tests.unit.api.machine_files import MachineFiles

PEPPER = b"p" * 32
TENANTS = ("north", "south", "west")
ADMIN = "root"
HOST = "127.0.0.1:7646"
# Quick enough for a test that waits for a stream, and the same code as with the usual times.
QUICK = StreamLimits(recheck_s=0.02, idle_s=0.2, reread_s=5.0, fleet_s=0.02, log_poll_s=0.01, log_poll_s_max=0.05)
WAIT_S = 120.0


def domain_admin(tenant: str) -> str:
    """The user who administers a tenant."""
    return f"{tenant}-domain-admin"


def member(tenant: str) -> str:
    """An ordinary user of a tenant."""
    return f"{tenant}-member"


class RecordedTelemetry:
    """Figures, kept for the test; `figures` is what the metrics say, or how they fail."""

    def __init__(self) -> None:
        self.figures: bytes | Exception = b"sokovan_up 1\n"
        self.observed: list[tuple[str, float, dict[str, str]]] = []
        self.counted: list[tuple[str, int, dict[str, str]]] = []

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        self.counted.append((name, amount, labels))

    def observe(self, name: str, value: float, **labels: str) -> None:
        self.observed.append((name, value, labels))

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.observed.append((name, value, labels))

    def metrics(self) -> bytes:
        if isinstance(self.figures, Exception):
            raise self.figures
        return self.figures


class Stream:
    """A server-sent stream that is read as it comes."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._dependencies: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = b""
        # Messages with a part of the body so far.
        self.parts = 0
        self.hang_up = asyncio.Event()

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            self.parts += 1
            await self._dependencies.put(message.get("body", b""))
            if not message.get("more_body"):
                await self._dependencies.put(None)

    async def block(self) -> str | None:
        """The next event or comment; None at the end."""
        async with asyncio.timeout(WAIT_S):
            return await self._block()

    async def _block(self) -> str | None:
        while b"\n\n" not in self._rest:
            part = await self._dependencies.get()
            if part is None:
                return None
            self._rest += part
        block, _, self._rest = self._rest.partition(b"\n\n")
        return block.decode()

    async def event(self) -> tuple[str, Any] | None:
        """The next event as its name and data, comments passed over; None at the end."""
        async with asyncio.timeout(WAIT_S):
            while (block := await self._block()) is not None:
                fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
                if "event" in fields:
                    return fields["event"], json.loads(fields["data"])
        return None

    async def rest(self) -> list[tuple[str, Any]]:
        """Every event until the end."""
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        return found


class Socket:
    """The client's end of a WebSocket."""

    def __init__(self) -> None:
        self._inward: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outward: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._inward.put_nowait({"type": "websocket.connect"})

    async def receive(self) -> dict[str, Any]:
        return await self._inward.get()

    async def send(self, message: Mapping[str, Any]) -> None:
        await self._outward.put(dict(message))

    def say(self, message: bytes | str) -> None:
        kind = "bytes" if isinstance(message, bytes) else "text"
        self._inward.put_nowait({"type": "websocket.receive", kind: message})

    def leave(self) -> None:
        self._inward.put_nowait({"type": "websocket.disconnect", "code": 1000})

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(WAIT_S):
            return await self._outward.get()


@dataclass
class ApiHarness:
    """The API, its store, and a key for each of its users."""

    app: FastAPI
    cluster: StoredCluster
    dependencies: ApiDependencies
    agents: FakeAgents
    telemetry: RecordedTelemetry
    bus: InProcessEventBus
    tokens: dict[str, str] = field(default_factory=dict)
    keys: dict[str, AccessKey] = field(default_factory=dict)

    @property
    def states(self) -> InProcessAgentStates:
        """The heartbeats that the API reads."""
        assert isinstance(self.dependencies.agents, InProcessAgentStates)
        return self.dependencies.agents

    def headers(self, user: str | None = ADMIN) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[user]}"} if user is not None else {}

    async def call(self, method: str, path: str, *, user: str | None = ADMIN, **options: Any) -> httpx2.Response:
        headers = {**self.headers(user), **options.pop("headers", {})}
        bare = options.pop("bare", False) or path in {"/livez", "/readyz", "/metrics"}
        full = path if bare else f"/api/v1{path}"
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, full, headers=headers, **options)

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.call("GET", path, **options)

    @asynccontextmanager
    async def stream(
        self, path: str, *, user: str = ADMIN, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        """An open stream; it is hung up at the end."""
        stream = Stream()
        bare, _, query = path.partition("?")
        scope = self._scope("http", f"/api/v1{bare}", {**self.headers(user), **(headers or {})})
        scope |= {"method": "GET", "query_string": query.encode(), "asgi": {"version": "3.0", "spec_version": "2.3"}}
        began: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in began:
                return message
            await stream.hang_up.wait()
            return {"type": "http.disconnect"}

        task = asyncio.create_task(self.app(scope, receive, stream.send))
        try:
            yield stream
        finally:
            stream.hang_up.set()
            async with asyncio.timeout(WAIT_S):
                await task

    @asynccontextmanager
    async def socket(
        self, path: str, *, user: str | None = ADMIN, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Socket]:
        """An open WebSocket; it is left at the end."""
        socket = Socket()
        scope = self._scope("websocket", f"/api/v1{path}", {**self.headers(user), **(headers or {})})
        offered = [one.strip() for one in (headers or {}).get("sec-websocket-protocol", "").split(",") if one]
        scope |= {"query_string": b"", "subprotocols": offered, "extensions": {"websocket.http.response": {}}}
        task = asyncio.create_task(self.app(scope, socket.receive, socket.send))
        try:
            yield socket
        finally:
            socket.leave()
            async with asyncio.timeout(WAIT_S):
                await task

    async def flush(self) -> None:
        """Bring committed events to the bus, as the manager does all the time."""
        while await self.cluster.store.outbox.publish_pending(self.bus.publish, limit=100):
            pass

    async def submit(self, name: str, owner: str, **options: Any) -> str:
        """A session of this user, straight into the store."""
        tenant = owner.partition("-")[0]
        whose = Owner(user=owner, group=f"{tenant}-group", domain=tenant, access_key=self.keys[owner])
        await self.cluster.submit(name, owner=whose, name=options.pop("called", name), **options)
        await self.flush()
        return name

    async def run(self, name: str, owner: str, **options: Any) -> str:
        """A session of this user whose kernels run on agent `a1`."""
        await self.submit(name, owner, **options)
        record = await self.cluster.session(name)
        await self.cluster.place(name, *["a1"] * len(record.kernels))
        await self.cluster.start(name)
        for kernel in record.kernels:
            self.agents.says(kernel.kernel_id)
        await self.flush()
        return name

    async def audited(self) -> list[tuple[str, str, str, str]]:
        """The audit trail as (who, action, target, outcome)."""
        rows = await self.cluster.store.read(lambda unit: unit.audit.page(limit=1000))
        return [(entry.who, entry.action, entry.target, entry.outcome) for _, _, entry in rows]

    def _scope(self, kind: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        return {
            "type": kind,
            "http_version": "1.1",
            "scheme": "http" if kind == "http" else "ws",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "headers": [(b"host", HOST.encode()), *((n.encode(), v.encode()) for n, v in headers.items())],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 7646),
        }


@asynccontextmanager
async def api_harness(
    *, url: str = "sqlite://", clock: Clock | None = None, **settings: Any
) -> AsyncIterator[ApiHarness]:
    """The API with tenants, an agent `a1`, and its streams running."""
    async with StoredCluster.open(url, clock=clock) as cluster, _temporary_folder() as folder:
        api = _made(
            cluster, folder, ApiSettings(**{"pepper": PEPPER, "principal_kept_s": 0.02, "streams": QUICK, **settings})
        )
        await _bootstrap(api)
        async with api.app.router.lifespan_context(api.app):
            yield api


@asynccontextmanager
async def _temporary_folder() -> AsyncIterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def _made(cluster: StoredCluster, folder: Path, settings: ApiSettings) -> ApiHarness:
    clock = cluster.store.database.clock
    ids, hints, bus, agents = SortableIds(clock), InProcessHints(clock), InProcessEventBus(clock), FakeAgents()
    numbers: Iterator[int] = itertools.count()
    controller = SchedulingController(
        cluster.store,
        Submissions(cluster.store, ids=ids, clock=clock, names=lambda: name_of(next(numbers)), secrets=cluster.secrets),
        hints=hints,
        dry_runs=DryRuns(cluster.snapshots),
    )
    deployments, routes = serving_controllers(
        cluster.store, controller, hints=hints, ids=ids, pepper=PEPPER, box=cluster.secrets
    )
    telemetry, uploads = RecordedTelemetry(), LocalUploads(folder / "uploads")
    dependencies = ApiDependencies(
        store=cluster.store,
        controller=controller,
        deployments=deployments,
        routes=routes,
        hints=hints,
        events=bus,
        agents=InProcessAgentStates(clock),
        gateway=agents,
        clock=clock,
        ids=ids,
        telemetry=telemetry,
        metrics=telemetry.metrics,
        uploads=uploads,
        files=MachineFiles(folder / "kernels", uploads),
        gateway_url="http://gateway.test/v1",
    )
    return ApiHarness(make_app(dependencies, settings), cluster, dependencies, agents, telemetry, bus)


async def _bootstrap(api: ApiHarness) -> None:
    domains = [*TENANTS, "default"]
    await api.cluster.put(*(Domain(name) for name in domains), Queue(QueueName("default")))
    await api.cluster.put(Group("default", "default"), *(Group(f"{name}-group", name) for name in TENANTS))
    users = [User(ADMIN, "default", groups=("default",), role=Role.ADMIN)]
    for tenant in TENANTS:
        groups = (f"{tenant}-group",)
        users += [
            User(domain_admin(tenant), tenant, groups=groups, role=Role.DOMAIN_ADMIN),
            User(member(tenant), tenant, groups=groups),
        ]
    await api.cluster.put(*users)
    for user in users:
        await add_key(api, user.name)
    await api.cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 40, "cuda.device": 4})


async def add_key(api: ApiHarness, user: str, *, named: str = "") -> str:
    """Another key of a user, under a name of its own in `tokens`; its access key."""
    access_key = AccessKey(api.cluster.new("AK"))
    token = new_token(access_key)
    name = named or user

    async def work(unit: Any) -> None:
        await unit.catalog.put(Keypair(access_key, user))
        await unit.credentials.put(access_key, token_digest(token, PEPPER))

    await api.cluster.store.run(work)
    api.tokens[name], api.keys[name] = token, access_key
    return access_key


def quick(**options: Any) -> StreamLimits:
    """The quick limits, with some changed."""
    return replace(QUICK, **options)
