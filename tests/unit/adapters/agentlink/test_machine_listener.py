"""Requests of other machines: which need a certificate; acceptance tests make them over TLS."""

from __future__ import annotations

from typing import Any, cast

from websockets.datastructures import Headers
from websockets.http11 import Request

from sokovan.adapters.agentlink.linked_agents import LinkedAgents
from sokovan.adapters.agentlink.machine_listener import CERTIFIED, MachineEndpoint, certified_name
from sokovan.testing.clock import VirtualClock
from sokovan.wire.frames import LINK_PATH, STREAM_PATH
from sokovan.wire.join_messages import JOIN_PATH, RENEW_PATH


def status(path: str, credential: str = "", **headers: str) -> int:
    """The status of the refusal of a request; 0 if it is accepted."""
    nothing = cast("Any", None)
    agents = LinkedAgents(VirtualClock(), admit=nothing, on_heartbeat=nothing)
    refusal = MachineEndpoint(agents, nothing, "pem", nothing).refusal(Request(path, Headers(headers)), credential)
    return 0 if refusal is None else refusal[0]


async def test_a_client_without_a_certificate_may_join_and_nothing_else() -> None:
    assert status(JOIN_PATH) == 0
    assert [status(path) for path in (LINK_PATH, RENEW_PATH, STREAM_PATH + "x")] == [401, 401, 401]


async def test_an_agent_with_a_certificate_may_link_and_renew() -> None:
    assert [status(path, CERTIFIED + "a 0f") for path in (LINK_PATH, RENEW_PATH)] == [0, 0]
    assert [status(path, CERTIFIED + "a 0f") for path in (STREAM_PATH + "x", "/")] == [404, 404]
    assert status(LINK_PATH, CERTIFIED + "a 0f", Origin="https://example.com") == 403


def test_a_credential_names_an_agent_and_the_digest_of_its_key() -> None:
    assert certified_name(f"{CERTIFIED}a 0f") == ("a", "0f")
