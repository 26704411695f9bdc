"""ASGI middleware: request ids, authentication, limits and metrics."""

from __future__ import annotations

import gc
import logging
from types import FrameType
from typing import Any

import pytest

from sokovan.api.errors import ForeignOrigin
from sokovan.api.middleware import LOOKUPS_PER_S, host_name, require_own
from sokovan.domain.errors import StoreUnavailable
from sokovan.testing.clock import VirtualClock
from tests.unit.api.api_harness import ADMIN, ApiHarness, add_key, api_harness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = frozenset({"127.0.0.1", "localhost", "[::1]", "sokovan.example"})
BAD_TOKEN = "Bearer sk-AK-1." + "x" * 43


@pytest.mark.slow
async def test_liveness_needs_no_key_and_everything_else_does(api: ApiHarness) -> None:
    assert (await api.get("/livez", user=None)).text == "ok\n"
    for path in ("/readyz", "/metrics", "/whoami", "/nothing/here", "/openapi.json"):
        answer = await api.get(path, user=None)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.slow
async def test_an_unknown_key_reads_like_no_key_at_all(api: ApiHarness) -> None:
    unknown = await api.get("/whoami", user=None, headers={"authorization": BAD_TOKEN})
    without = await api.get("/whoami", user=None)
    differs = {"request_id"}
    assert {k: v for k, v in unknown.json().items() if k not in differs} == {
        k: v for k, v in without.json().items() if k not in differs
    }


@pytest.mark.slow
async def test_failures_of_one_address_are_limited_and_a_good_key_still_opens() -> None:
    async with api_harness(clock=VirtualClock()) as api:
        answers = [await api.get("/whoami", user=None) for _ in range(12)]
        assert [one.status_code for one in answers] == [401] * 10 + [429] * 2
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert (await api.get("/whoami")).status_code == 200


@pytest.mark.slow
async def test_a_user_has_one_budget_of_requests_for_all_keys() -> None:
    async with api_harness(clock=VirtualClock(), requests_per_s=1, requests_burst=3) as api:
        await add_key(api, ADMIN, named="second")
        codes = [(await api.get("/whoami", user=one)).status_code for one in (ADMIN, "second", ADMIN, "second")]
        assert codes == [200, 200, 200, 429]
        assert (await api.get("/whoami", user=member("north"))).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
async def test_a_foreign_host_or_page_is_refused_even_with_a_key(api: ApiHarness, headers: dict[str, str]) -> None:
    for path in ("/whoami", "/livez"):
        answer = await api.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign-origin")


async def test_a_page_of_our_own_may_call(api: ApiHarness) -> None:
    assert (await api.get("/whoami", headers={"origin": "http://localhost:7646"})).status_code == 200


async def test_a_body_that_is_too_long_is_not_read(api: ApiHarness) -> None:
    answer = await api.call("POST", "/sessions", content=b"x" * ((1 << 20) + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")

    async def drip() -> Any:
        for _ in range(20):
            yield b" " * 100_000

    headers = {"content-type": "application/json"}
    answer = await api.call("POST", "/sessions", content=drip(), headers=headers)
    assert answer.status_code == 413


async def test_every_answer_carries_the_number_of_its_request(api: ApiHarness) -> None:
    good = await api.get("/whoami")
    bad = await api.get("/nothing")
    assert good.headers["x-request-id"] != bad.headers["x-request-id"]
    assert bad.json()["request_id"] == bad.headers["x-request-id"]
    assert (await api.get("/whoami", headers={"x-request-id": "mine-1"})).headers["x-request-id"] == "mine-1"
    forged = await api.get("/whoami", headers={"x-request-id": "a b"})
    assert forged.headers["x-request-id"] != "a b"


async def test_answers_are_not_kept_or_guessed_at(api: ApiHarness) -> None:
    answer = await api.get("/whoami")
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")


async def test_an_unexpected_error_is_an_id_to_the_client_and_details_in_the_log(
    api: ApiHarness, caplog: pytest.LogCaptureFixture
) -> None:
    api.telemetry.figures = ZeroDivisionError("secret inside")
    with caplog.at_level(logging.ERROR, logger="sokovan.api"):
        answer = await api.get("/metrics")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.json()["request_id"] in caplog.text
    assert ("api_failures_total", 1, {}) in api.telemetry.counted
    api.telemetry.figures = b"sokovan_up 1\n"


async def test_a_store_that_is_away_is_503_and_worth_another_try(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the database did not answer")

    monkeypatch.setattr(api.cluster.store, "read", away)
    answer = await api.get("/sessions")
    assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_every_request_is_timed_by_its_route_and_not_by_its_path(api: ApiHarness) -> None:
    api.telemetry.observed.clear()
    await api.get("/agents/a1")
    await api.get("/agents/a2")
    await api.get("/nothing")
    await api.get("/whoami", user=None)
    labels = [labels for name, _, labels in api.telemetry.observed if name == "api_seconds"]
    assert labels == [
        {"route": "/api/v1/agents/{name}", "method": "GET", "status": "200"},
        {"route": "/api/v1/agents/{name}", "method": "GET", "status": "404"},
        {"route": "unmatched", "method": "GET", "status": "404"},
        {"route": "unmatched", "method": "GET", "status": "401"},
    ]


async def test_a_revoked_key_is_refused_soon(api: ApiHarness) -> None:
    key = await add_key(api, ADMIN, named="second")
    assert (await api.get("/whoami", user="second")).status_code == 200
    assert (await api.call("DELETE", f"/keys/{key}")).status_code == 204
    assert (await api.get("/whoami", user="second")).status_code == 401


async def test_a_socket_is_refused_like_any_request(api: ApiHarness) -> None:
    path = "/sessions/x/kernels/0/exec"
    for user, headers, status in (
        (None, {}, 401),
        (ADMIN, {"origin": "http://evil.example"}, 403),
        (ADMIN, {}, 404),
    ):
        async with api.socket(path, user=user, headers=headers) as socket:
            answer = await socket.hear()
            assert (answer["type"], answer["status"]) == ("websocket.http.response.start", status)


@pytest.mark.slow
async def test_guessing_keys_does_not_keep_the_store_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with api_harness(clock=VirtualClock(), failures_per_minute=5) as api:
        assert (await api.get("/whoami")).status_code == 200
        looked, real = 0, api.cluster.store.read

        async def counted(work: Any) -> object:
            nonlocal looked
            looked += 1
            return await real(work)

        monkeypatch.setattr(api.cluster.store, "read", counted)
        guesses = [f"Bearer sk-AK-1.{number:043d}" for number in range(40)]
        codes = [(await api.get("/whoami", user=None, headers={"authorization": one})).status_code for one in guesses]
        assert codes == [401] * 5 + [429] * 35
        assert looked == 5 + LOOKUPS_PER_S
        # A cached key is not locked out, and a new one is rate-limited.
        assert (await api.get("/whoami")).status_code == 200
        assert (await api.get("/whoami", user=member("north"))).status_code == 429


async def test_a_key_that_is_unknown_is_looked_for_once_in_a_while(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, real = 0, api.cluster.store.read

    async def counted(work: Any) -> object:
        nonlocal looked
        looked += 1
        return await real(work)

    monkeypatch.setattr(api.cluster.store, "read", counted)
    headers = {"authorization": "Bearer sk-AK-2." + "y" * 43}
    assert {(await api.get("/whoami", user=None, headers=headers)).status_code for _ in range(5)} == {401}
    assert looked == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("127.0.0.1:7646", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("[::1]:80", "[::1]"),
        ("a.b-c_d:1", "a.b-c_d"),
        ("", None),
        ("a b", None),
        ("a:b", None),
        ("user@localhost", None),
        ("localhost:123456", None),
        ("localhost,evil", None),
    ],
)
async def test_a_host_header_names_one_host(text: str, name: str | None) -> None:
    assert host_name(text) == name


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:7646", None),
        ("localhost", "http://localhost:3000"),
        ("127.0.0.1:7646", "https://sokovan.example"),
        ("[::1]:7646", "http://[::1]:7646"),
    ],
)
async def test_own_names_are_answered(host: str, origin: str | None) -> None:
    require_own(host, origin, OWN)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (None, None),
        ("", None),
        ("evil.example", None),
        ("localhost.evil.example", None),
        ("evil-localhost", None),
        ("localhost", "http://evil.example"),
        ("localhost", "null"),
        ("localhost", ""),
        ("localhost", "http://localhost.evil.example"),
        ("localhost", "file://localhost"),
        ("localhost", "http://localhost@evil.example"),
    ],
)
async def test_foreign_names_and_pages_are_refused(host: str | None, origin: str | None) -> None:
    with pytest.raises(ForeignOrigin):
        require_own(host, origin, OWN)


@pytest.mark.slow
async def test_a_refused_credential_leaves_an_audit_row_without_its_secret() -> None:
    async with api_harness() as api:
        token = f"sk-AK-GUESSED.{'x' * 43}"
        for given in (token, "nonsense"):
            answer = await api.get("/whoami", user=None, headers={"authorization": f"Bearer {given}"})
            assert answer.status_code == 401
        await api.get("/whoami", user=None)
        rows = [row for row in await api.audited() if row[1] == "authenticate"]
        assert rows == [
            ("anonymous", "authenticate", "AK-GUESSED", "denied"),
            ("anonymous", "authenticate", "malformed", "denied"),
        ]


@pytest.mark.slow
async def test_the_audit_rows_of_refused_credentials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokovan.api.access.auditing.DENIED_PER_MINUTE", 3)
    async with api_harness(clock=VirtualClock(), failures_per_minute=1000) as api:
        for number in range(20):
            await api.get("/whoami", user=None, headers={"authorization": f"Bearer sk-K{number}.{'x' * 43}"})
        assert len([row for row in await api.audited() if row[1] == "authenticate"]) == 3


async def test_a_client_that_hangs_up_in_its_body_is_no_failure_of_the_server(
    api: ApiHarness, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Any] = []
    messages = iter([{"type": "http.request", "body": b'{"command"', "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {**api.headers(), "content-type": "application/json"}
    scope = {**api._scope("http", "/api/v1/sessions", headers), "method": "POST", "query_string": b""}
    before = len(api.telemetry.counted)
    with caplog.at_level(logging.WARNING):
        await api.app(scope, receive, send)
    assert sent == []
    assert caplog.messages == []
    assert api.telemetry.counted[before:] == []
    assert api.telemetry.observed[-1][2]["status"] == "499"


async def test_a_refused_body_is_not_kept_until_a_garbage_collection(api: ApiHarness) -> None:
    body = {"command": ["true"], "environment": {"X": "x" * 100_000}}
    assert (await api.call("POST", "/sessions", json=body)).status_code == 422
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await api.call("POST", "/sessions", json=body)
        gc.collect()
        assert [found for found in gc.garbage if isinstance(found, FrameType)] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
