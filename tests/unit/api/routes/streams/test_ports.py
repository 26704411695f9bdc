"""A connection to a port of a running kernel, over a WebSocket."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.api.routes.streams.ports import leased_port
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.lifecycle.kernel import KernelStatus
from sokovan.domain.records import KernelRecord
from sokovan.domain.session import ServicePort
from sokovan.domain.slots import NO_SLOTS
from tests.unit.api.api_harness import ApiHarness, member
from tests.unit.api.routes.streams.test_exec import last, refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

NORTH, SOUTH = member("north"), member("south")
KERNEL = KernelRecord(
    kernel_id=KernelId("k"),
    session_id=SessionId("s"),
    index=0,
    status=KernelStatus.RUNNING,
    version=1,
    slots=NO_SLOTS,
    host_ports={"web": 20001, "db": 20002},
)


@pytest.mark.parametrize(("wanted", "port"), [("web", 20001), ("db", 20002), ("20002", 20002)])
async def test_a_port_is_found_by_name_and_by_number(wanted: str, port: int) -> None:
    assert leased_port(KERNEL, wanted) == port


@pytest.mark.parametrize("wanted", ["x", "22", "20003", "", "020001"])
async def test_only_leased_ports_are_found_and_the_hint_lists_them(wanted: str) -> None:
    with pytest.raises(ObjectNotFound) as raised:
        leased_port(KERNEL, wanted)
    assert "db, web" in str(raised.value.hint)


async def test_a_kernel_without_ports_says_how_to_request_one() -> None:
    with pytest.raises(ObjectNotFound) as raised:
        leased_port(replace(KERNEL, host_ports={}), "web")
    assert "--port" in str(raised.value.hint)


@pytest.mark.slow
async def test_a_port_of_another_user_and_one_that_is_not_leased_are_not_found(api: ApiHarness) -> None:
    await api.run("served", NORTH)
    for user in (SOUTH, NORTH):
        assert await refused(api, "/sessions/served/kernels/0/ports/web", user) == (404, "not-found")


@pytest.mark.slow
async def test_bytes_travel_in_both_directions_and_it_is_audited(api: ApiHarness) -> None:
    await api.run("page", NORTH, ports=(ServicePort("web"),))
    async with api.socket("/sessions/page/kernels/0/ports/web", user=NORTH) as socket:
        assert (await socket.hear())["type"] == "websocket.accept"
        assert (await socket.hear())["bytes"].startswith(b"port ")
        socket.say(b"more")
        assert (await socket.hear())["bytes"] == b"MORE"
        socket.say(b"")
        assert await last(socket) == ({"exit_code": 7}, 1000)
    assert api.agents.executions[-1].ended
    assert (NORTH, "session.connect", "page.0", "done") in await api.audited()
