"""The stream of the fleet, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from sokovan.api.fleet import reader as fleet_reader
from sokovan.api.fleet import stream as fleet_stream
from sokovan.api.fleet.changes import FleetDifference, change_view
from sokovan.api.fleet.columns import Sees
from sokovan.domain.errors import StoreUnavailable
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.agent import AgentTrigger
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.orchestrator.topology_changes import TopologyState, topology_state
from sokovan.ports.agent_states import AgentState, DeviceFigures
from sokovan.ports.storage import UnitOfWork
from sokovan.sdk.core.streams.fleet import changed_fleet
from sokovan.testing.stored_cluster import BY_AGENT
from sokovan.wire.api.fleet import FleetView
from sokovan.wire.api.topology import FleetChangeView
from tests.unit.api.api_harness import ADMIN, ApiHarness, Stream, add_key, api_harness, domain_admin, member, quick

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
SLOTS = {"cpu": 1000, "mem": 1 << 30, "cuda.device": 1}
PLACE = "last-event-id"


class FleetClient:
    """A client that applies what a stream of the fleet sends."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.fleet: FleetView | None = None
        self.place = ""

    async def next(self) -> str:
        """The kind of the next event, which is applied."""
        while (block := await self.stream.block()) is not None:
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "event" in fields:
                self.place = fields.get("id", "")
                self._apply(fields["event"], fields["data"].encode())
                return fields["event"]
        return ""

    async def until(self, api: ApiHarness, user: str = ADMIN) -> None:
        """Apply changes until the fleet is as it is read now."""
        whole = await read(api, user)
        while self.now() != whole:
            assert await self.next() == "change"

    def now(self) -> dict[str, Any]:
        """The columns as they are known, without their time."""
        return {**msgspec.to_builtins(self.fleet), "as_of": ""}

    def _apply(self, event: str, content: bytes) -> None:
        if event == "fleet":
            self.fleet = msgspec.json.decode(content, type=FleetView)
        elif event == "change":
            assert self.fleet is not None
            self.fleet = changed_fleet(self.fleet, msgspec.json.decode(content, type=FleetChangeView))


async def read(api: ApiHarness, user: str = ADMIN) -> dict[str, Any]:
    """The columns of now, without their time."""
    return {**(await api.get("/fleet", user=user)).json(), "as_of": ""}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    async with api_harness(streams=quick(reread_s=3600)) as made:
        yield made


@pytest.fixture(autouse=True)
def _every_read_is_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an answer would be that of an earlier request."""
    defaults: dict[str, Any] = fleet_reader.FleetReader.current.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "kept_ms", 0)


@pytest.mark.slow
async def test_a_stream_begins_with_all_columns_and_goes_on_with_what_changes(api: ApiHarness) -> None:
    async with AsyncExitStack() as stack:
        users = (ADMIN, NORTH, SOUTH, domain_admin("north"))
        readers = {
            user: FleetClient(await stack.enter_async_context(api.stream("/fleet/events", user=user))) for user in users
        }
        for user, reader in readers.items():
            assert await reader.next() == "fleet"
            assert reader.now() == await read(api, user)
        await api.run("train", NORTH, slots=SLOTS)
        for user, reader in readers.items():
            await reader.until(api, user)
        named = {user: [one.name for one in reader.fleet.holders] for user, reader in readers.items() if reader.fleet}
        assert named == {ADMIN: ["train"], NORTH: ["train"], SOUTH: [], domain_admin("north"): ["train"]}
        await api.cluster.agent("a0", slots={"cpu": 1000})
        await api.flush()
        for user, reader in readers.items():
            await reader.until(api, user)
            assert reader.fleet is not None
            assert reader.fleet.agents == ["a0", "a1"]
        await changed(api, "a0", "drain")
        for user, reader in readers.items():
            await reader.until(api, user)
        await api.cluster.stop("train")
        await api.cluster.free("train", FreeProof.AGENT_TOMBSTONE)
        record = await api.cluster.store.read(lambda unit: unit.fleet.get(AgentId("a0")))
        await api.cluster.store.run(lambda unit: unit.fleet.move(record, AgentTrigger.LEFT, BY_AGENT))
        await api.flush()
        for user, reader in readers.items():
            await reader.until(api, user)
            assert reader.fleet is not None
            assert (reader.fleet.agents, reader.fleet.holders, set(reader.fleet.device_used)) == (["a1"], [], {0})


async def changed(api: ApiHarness, name: str, action: str) -> None:
    """An agent that an administrator acts on."""
    assert (await api.call("PATCH", f"/agents/{name}", json={"action": action})).status_code == 200
    await api.flush()


async def test_a_stream_that_is_resumed_sends_only_what_was_missed(api: ApiHarness) -> None:
    async with api.stream("/fleet/events") as stream:
        first = FleetClient(stream)
        assert await first.next() == "fleet"
    await changed(api, "a1", "drain")
    async with api.stream("/fleet/events", headers={PLACE: first.place}) as stream:
        again = FleetClient(stream)
        again.fleet = first.fleet
        assert await again.next() == "change"
        assert again.now() == await read(api)
        assert again.fleet is not None
        assert again.fleet.status == ["draining"]
        await changed(api, "a1", "undrain")
        assert await again.next() == "change"
    for place, user in ((again.place, NORTH), (again.place + "0", ADMIN), ("fleet-1.1", ADMIN), ("?", ADMIN)):
        async with api.stream("/fleet/events", headers={PLACE: place}, user=user) as stream:
            assert await FleetClient(stream).next() == "fleet", f"{place} of {user} is not known"
    async with api.stream("/fleet/events", headers={PLACE: again.place}) as stream:
        assert (await stream.block() or "").startswith(": connected")
        assert (await stream.block() or "").startswith(": alive"), "nothing has changed"


async def test_a_reader_who_missed_too_much_gets_all_columns_again(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with api.stream("/fleet/events") as stream:
        slow = FleetClient(stream)
        assert await slow.next() == "fleet"
    monkeypatch.setattr(fleet_stream, "CHANGES_KEPT", 1)
    async with api.stream("/fleet/events") as stream:
        steady = FleetClient(stream)
        assert await steady.next() == "fleet"
        for action in ("drain", "undrain"):
            await changed(api, "a1", action)
            assert await steady.next() == "change"
        async with api.stream("/fleet/events", headers={PLACE: slow.place}) as other:
            late = FleetClient(other)
            assert await late.next() == "fleet"
            assert late.now() == steady.now() == await read(api)


async def test_a_change_with_more_values_than_the_columns_is_sent_as_these() -> None:
    async with api_harness(streams=quick(reread_s=3600)) as api, api.stream("/fleet/events") as stream:
        reader = FleetClient(stream)
        assert await reader.next() == "fleet"
        for name in ("b1", "b2"):
            await api.cluster.agent(name)
        await api.flush()
        assert await reader.next() == "fleet"
        assert reader.now() == await read(api)
        await changed(api, "b1", "drain")
        assert await reader.next() == "change"


async def test_readers_share_reads_and_without_any_there_are_none(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    async def counting(unit: UnitOfWork, **known: Any) -> TopologyState:
        counted.append("read")
        return await topology_state(unit, **known)

    encoded: list[object] = []

    def encoding(found: FleetDifference, sees: Sees) -> FleetChangeView:
        encoded.append(found)
        return change_view(found, sees)

    monkeypatch.setattr(fleet_stream, "change_view", encoding)
    monkeypatch.setattr(fleet_reader, "topology_state", counting)
    async with AsyncExitStack() as stack:
        several = [FleetClient(await stack.enter_async_context(api.stream("/fleet/events"))) for _ in range(5)]
        assert [await one.next() for one in several] == ["fleet"] * 5
        before = len(counted)
        assert before <= 2, "a stream that opens while others are open reads nothing"
        await changed(api, "a1", "drain")
        assert [await one.next() for one in several] == ["change"] * 5
        assert (len(counted) - before, len(encoded)) == (1, 1)
    await changed(api, "a1", "undrain")
    async with api.stream("/events") as other:
        for _ in range(3):
            await other.block()
    assert len(counted) - before == 1, "nobody reads the stream"


async def test_figures_are_read_now_and_then_as_they_have_no_events() -> None:
    async with api_harness(streams=quick(reread_s=0.05)) as api, api.stream("/fleet/events") as stream:
        reader = FleetClient(stream)
        assert await reader.next() == "fleet"
        assert reader.fleet is not None
        assert reader.fleet.device_use == []
        device = reader.fleet.device[0]
        for use in (71, 72):
            figures = {device: DeviceFigures(use, 3 << 30, 4 << 30, 64)}
            await api.states.put(AgentState(AgentId("a1"), 1, use, devices=figures), ttl_s=600)
            assert await reader.next() == "change"
            assert reader.fleet.device_use[0] == use
            assert reader.now() == await read(api)
        await api.states.drop(AgentId("a1"))
        assert await reader.next() == "change"
        assert reader.fleet.device_use == []


async def test_a_failure_ends_the_streams_and_the_next_one_reads_again(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(_unit: UnitOfWork, **_known: Any) -> TopologyState:
        raise StoreUnavailable("away")

    async with api.stream("/fleet/events") as stream:
        reader = FleetClient(stream)
        assert await reader.next() == "fleet"
        with monkeypatch.context() as patched:
            patched.setattr(fleet_reader, "topology_state", failing)
            await changed(api, "a1", "drain")
            assert [(name, problem["code"]) for name, problem in await stream.rest()] == [
                ("problem", "store-unavailable")
            ]
            async with api.stream("/fleet/events") as other:
                assert [name for name, _ in await other.rest()] == ["problem"]
    async with api.stream("/fleet/events", headers={PLACE: reader.place}) as stream:
        again = FleetClient(stream)
        again.fleet = reader.fleet
        assert await again.next() == "change"
        assert again.now() == await read(api)
    await changed(api, "a1", "undrain")


async def test_a_revoked_key_ends_its_stream(api: ApiHarness) -> None:
    key = await add_key(api, NORTH, named="brief")
    async with api.stream("/fleet/events", user="brief") as revoked:
        assert await FleetClient(revoked).next() == "fleet"
        await api.call("DELETE", f"/keys/{key}")
        assert (await revoked.rest())[-1][1]["code"] == "unauthenticated"


async def test_it_counts_among_the_streams_of_its_user_and_needs_a_key() -> None:
    async with api_harness(streams=quick(streams_per_user_max=1)) as api:
        async with api.stream("/fleet/events") as stream:
            await stream.block()
            assert (await api.get("/fleet/events")).json()["code"] == "too-many-streams"
        assert (await api.get("/fleet/events", user=None)).status_code == 401
        assert (await api.get("/fleet/events", headers={PLACE: "x" * 101})).status_code == 422
