"""Every route of the document, with each role, on objects of other tenants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from sokovan.domain.owners.login import Login
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, User
from sokovan.ports.repositories.sessions import SessionFilter
from tests.unit.adapters.process.files.kernels import Machine
from tests.unit.api.api_harness import ADMIN, TENANTS, ApiHarness, api_harness, domain_admin, member
from tests.unit.api.machine_files import MachineFiles

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What belongs to a tenant, by the first part of its path; everything else belongs to the system.
OWNED = frozenset({"sessions", "deployments", "users", "groups", "domains", "keys", "logins"})
# Reads that name sessions of every tenant.
FOR_ADMINISTRATORS = "/api/v1/bookings/{name}/evictions"
# Routes that name no object: they show the caller's own, or create something for the caller.
UNNAMED = "{"


@dataclass(frozen=True)
class Operation:
    """A row of the document."""

    method: str
    path: str
    has_body: bool

    @property
    def kind(self) -> str:
        return self.path.removeprefix("/api/v1/").partition("/")[0]

    @property
    def names_an_object(self) -> bool:
        return UNNAMED in self.path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    """Three tenants, each with a session that runs and a deployment of the same name."""
    async with api_harness(failures_per_minute=10_000) as made:
        for tenant in TENANTS:
            await made.run(f"{tenant}-run", member(tenant))
            await made.call("POST", "/deployments", json=deployment(tenant), user=member(tenant))
            made.agents.says(f"{tenant}-run.0", b"private", ends=True)
            assert isinstance(made.dependencies.files, MachineFiles)
            machine = Machine(made.dependencies.files.root)
            machine.kernel(f"{tenant}-run.0")
            machine.wrote(f"{tenant}-run.0", {"private": 7})
            await made.cluster.put(login(made, tenant))
        yield made


def login(api: ApiHarness, tenant: str) -> Login:
    """A browser of the tenant's member."""
    now_ms, key = api.dependencies.clock.now_ms(), api.keys[member(tenant)]
    name = f"LI-{tenant.upper()}"
    return Login(name=name, access_key=key, user=member(tenant), digest="d", created_ms=now_ms, used_ms=now_ms)


def deployment(tenant: str) -> dict[str, Any]:
    return {"name": f"{tenant}-run", "revision": {"engine": "toy", "resources": {"cpu": 1}}}


BOOKING = {
    "name": "b",
    "kind": "maintenance",
    "agents": ["booked"],
    "starts_at": "2130-01-01T00:00:00Z",
    "ends_at": "2130-01-02T00:00:00Z",
}


async def operations(api: ApiHarness) -> list[Operation]:
    document = (await api.get("/openapi.json")).json()
    return [
        Operation(method.upper(), path, "requestBody" in operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def path_of(api: ApiHarness, operation: Operation, tenant: str) -> str:
    """The path of an object of this tenant, or of the system."""
    name = {
        "users": member(tenant),
        "groups": f"{tenant}-group",
        "domains": tenant,
        "agents": "a1",
        "queues": "default",
        "bookings": "b",
        "scaling-groups": "default",
        "images": "repo/x",
        "policies": "p",
        "logins": f"LI-{tenant.upper()}",
    }.get(operation.kind, "")
    values = {"ref": f"{tenant}-run", "index": "0", "name": name, "access_key": api.keys[member(tenant)]}
    values |= {"digest": "0" * 64, "token": "tok-1"}
    query = "?path=output/private" if operation.path.endswith("/content") else ""
    return operation.path.format(**values) + query


def body_of(operation: Operation, tenant: str) -> dict[str, Any]:
    """A body that is valid from a caller with the permission."""
    if operation.path.endswith("/labels"):
        return {"set": {"zone": "a"}}
    if operation.path.endswith("/files"):
        return {"upload": "0" * 64}
    if operation.path.endswith("/approval"):
        return {"claims": ["label zone=a"]}
    if operation.path.endswith("/taints"):
        return {"set": ["spot"]}
    parts: dict[str, dict[str, Any]] = {
        "scale": {"replicas_min": 1},
        "update": {"revision": deployment(tenant)["revision"]},
        "rollback": {},
        "tokens": {"name": "ci"},
        "chat": {"messages": [{"role": "user", "content": "hi"}]},
        "route": {"weights": {"0": 2}},
    }
    if operation.kind == "deployments":
        return parts.get(operation.path.rpartition("/")[2], deployment(tenant))
    bodies: dict[str, dict[str, Any]] = {
        "users": {"name": member(tenant), "domain": tenant},
        "groups": {"name": f"{tenant}-group", "domain": tenant},
        "domains": {"name": tenant},
        "keys": {"policy": None} if operation.method == "PUT" else {"user": member(tenant)},
        "agents": {"action": "drain"},
        "join-tokens": {},
        "what-if": {"drain": ["a1"]},
        "queues": {"name": "default", "weight": 9},
        "bookings": BOOKING,
        "scaling-groups": {"name": "default"},
        "images": {"name": "repo/x"},
        "policies": {"name": "p"},
        "topology": {"tiers": [{"name": "rack", "label": "rack"}]},
        "uploads": {"files": []},
        "sessions": {"command": ["true"], "resources": {"cpu": 1}},
        "sessions:batch": {"command": ["true"], "resources": {"cpu": 1}},
        "sessions:stop": {"session": f"{tenant}-run"},
    }
    return bodies[operation.kind]


async def call(api: ApiHarness, operation: Operation, tenant: str, user: str | None) -> Any:
    options = {"json": body_of(operation, tenant)} if operation.has_body else {}
    return await api.call(operation.method, path_of(api, operation, tenant), user=user, bare=True, **options)


async def stored(api: ApiHarness) -> object:
    """Everything that a tenant could lose."""

    async def work(unit: Any) -> object:
        sessions = await unit.sessions.page(SessionFilter(), limit=100)
        deployments = await unit.deployments.live()
        return (
            [(one.deployment_id, one.version) for one in deployments],
            [(one.session_id, one.version) for one in sessions],
            [await unit.catalog.all(kind) for kind in (Domain, Group, User, Keypair, Login)],
        )

    return await api.cluster.store.read(work)


async def test_without_a_key_every_route_but_liveness_is_401(api: ApiHarness) -> None:
    rows = await operations(api)
    answers = {row: (await call(api, row, "north", None)).status_code for row in rows}
    assert {row.path for row, status in answers.items() if status != 401} == {"/livez"}
    assert answers[Operation("GET", "/livez", has_body=False)] == 200
    assert len(rows) > 40


@pytest.mark.parametrize("tenant", TENANTS)
@pytest.mark.parametrize("role", ["member", "domain_admin"])
async def test_no_route_reaches_an_object_of_another_tenant(api: ApiHarness, tenant: str, role: str) -> None:
    user = member(tenant) if role == "member" else domain_admin(tenant)
    before = await stored(api)
    tried = 0
    for operation in await operations(api):
        foreign_keys = operation.kind == "keys" and operation.method == "POST"
        if operation.kind not in OWNED or not (operation.names_an_object or foreign_keys):
            continue
        for other in TENANTS:
            if other == tenant:
                continue
            answer = await call(api, operation, other, user)
            assert answer.status_code in {403, 404}, (operation, other, answer.text)
            assert "private" not in answer.text
            if operation.method == "GET":
                assert answer.status_code == 404, operation
            tried += 1
    assert tried > 30
    assert await stored(api) == before


@pytest.mark.parametrize("tenant", TENANTS)
async def test_no_socket_reaches_a_kernel_of_another_tenant(api: ApiHarness, tenant: str) -> None:
    for user in (member(tenant), domain_admin(tenant)):
        for other in TENANTS:
            if other != tenant:
                async with api.socket(f"/sessions/{other}-run/kernels/0/exec", user=user) as socket:
                    assert (await socket.hear())["status"] == 404


@pytest.mark.parametrize("user", [member("north"), domain_admin("north")])
async def test_what_belongs_to_the_system_is_read_by_all_and_changed_by_administrators(
    api: ApiHarness, user: str
) -> None:
    await api.call("PUT", "/images/repo/x", json={"name": "repo/x"})
    await api.cluster.agent("booked")
    assert (await api.call("PUT", "/bookings/b", json=BOOKING)).status_code in {200, 201}
    shared = {"agents", "queues", "bookings", "scaling-groups", "images"}
    for operation in await operations(api):
        if operation.kind in shared:
            answer = await call(api, operation, "north", user)
            permitted = operation.method == "GET" and operation.path != FOR_ADMINISTRATORS
            assert answer.status_code == (200 if permitted else 403), (operation, answer.text)


async def test_each_reaches_his_own_objects_and_an_administrator_all(api: ApiHarness) -> None:
    for operation in await operations(api):
        if operation.method != "GET" or operation.kind not in OWNED or "/events" in operation.path:
            continue
        for user in (member("north"), domain_admin("north"), ADMIN):
            assert (await call(api, operation, "north", user)).status_code == 200, (operation, user)


@pytest.mark.parametrize("tenant", TENANTS)
async def test_lists_show_nothing_of_others(api: ApiHarness, tenant: str) -> None:
    others = [other for other in TENANTS if other != tenant]
    for operation in await operations(api):
        if (
            operation.method != "GET"
            or operation.names_an_object
            or operation.path.endswith(("events", "openapi.json"))
        ):
            continue
        for user in (member(tenant), domain_admin(tenant)):
            text = (await call(api, operation, tenant, user)).text
            assert not any(other in text for other in others), (operation, user)


async def test_who_tried_is_written_down(api: ApiHarness) -> None:
    user = member("west")
    before = len(await api.audited())
    await api.call("DELETE", "/sessions/north-run", user=user)
    await api.call("PUT", "/queues/default", json={"name": "default"}, user=user)
    entries = (await api.audited())[before:]
    assert [(who, outcome) for who, _, _, outcome in entries] == [(user, "denied"), (user, "denied")]
