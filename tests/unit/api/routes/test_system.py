"""The system itself over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from sokovan import __version__
from sokovan.api.context import ApiContext
from sokovan.api.routes.system import SystemRoutes
from sokovan.api.settings import ApiSettings
from sokovan.domain.errors import StoreUnavailable
from tests.unit.api.api_harness import PEPPER, ApiHarness, domain_admin, member

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow
async def test_alive_ready_and_healthy(api: ApiHarness) -> None:
    assert (await api.get("/livez", user=None)).text == "ok\n"
    ready = await api.get("/readyz", user=member("north"))
    assert (ready.status_code, ready.json()["status"]) == (200, "ok")
    health = (await api.get("/health", user=member("north"))).json()
    assert (health["status"], health["version"]) == ("ok", __version__)
    assert health["parts"] == {
        "api": "ok",
        "store": "ok",
        "writes": "ok",
        "leader": "ok",
        "manager": "ok",
        "agents": "0 with a fresh heartbeat",
    }


@pytest.mark.slow
async def test_not_ready_while_the_store_cannot_be_written(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(_work: Any, **_options: Any) -> object:
        raise StoreUnavailable("writes fail: database or disk is full")

    monkeypatch.setattr(api.cluster.store, "run", full)
    answer = await api.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "degraded")
    assert answer.json()["parts"]["store"] == "ok"
    assert answer.json()["parts"]["writes"] == "store-unavailable: writes fail: database or disk is full"


async def test_not_ready_while_no_manager_leads(api: ApiHarness) -> None:
    leases = api.cluster.leases
    context = ApiContext.of(replace(api.dependencies, leases=leases), ApiSettings(pepper=PEPPER))
    routes = SystemRoutes(context, dict)
    refused = await routes.readyz()
    assert refused.status_code == 503
    assert b'"leader":"no manager leads"' in refused.body
    assert await leases.acquire("sessions", holder="m1", ttl_s=600) is not None
    assert (await routes.readyz()).status_code == 200


async def test_not_ready_while_the_store_is_away(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.get("/whoami")
    real = api.cluster.store.read
    calls = 0

    async def away_after_the_key(work: Any) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise StoreUnavailable("away")
        return await real(work)

    for path, status in (("/readyz", 503), ("/health", 200)):
        calls = 0
        api.app.state.context.authenticator.forget_user("root")
        monkeypatch.setattr(api.cluster.store, "read", away_after_the_key)
        answer = await api.get(path)
        monkeypatch.undo()
        assert (answer.status_code, answer.json()["status"]) == (status, "degraded")
        assert answer.json()["parts"]["store"] == "store-unavailable: away"


async def _never() -> object:
    await asyncio.Event().wait()
    return None


async def _closed() -> object:
    raise RuntimeError("Event loop is closed")


@pytest.mark.parametrize("fresh", [_never, _closed])
async def test_not_ready_while_the_manager_does_not_answer(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch, fresh: Callable[[], Awaitable[object]]
) -> None:
    monkeypatch.setattr("sokovan.api.routes.system.MANAGER_CHECK_S", 0.05)
    monkeypatch.setattr(api.dependencies.agents, "fresh", fresh)
    for path, status in (("/readyz", 503), ("/health", 200)):
        answer = await api.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, "degraded")
        parts = answer.json()["parts"]
        assert (parts["store"], parts["manager"], parts["agents"]) == ("ok", "unreachable", "unknown")


async def test_figures_are_for_administrators(api: ApiHarness) -> None:
    answer = await api.get("/metrics")
    assert (answer.status_code, answer.text) == (200, "sokovan_up 1\n")
    assert answer.headers["content-type"].startswith("text/plain")
    for user in (member("north"), domain_admin("north")):
        assert (await api.get("/metrics", user=user)).status_code == 403


async def test_whoami_shows_the_caller(api: ApiHarness) -> None:
    assert (await api.get("/whoami", user=domain_admin("west"))).json() == {
        "user": domain_admin("west"),
        "role": "domain-admin",
        "domain": "west",
        "groups": ["west-group"],
        "access_key": api.keys[domain_admin("west")],
        "machine": "",
        "folders": [],
    }


@pytest.mark.slow
async def test_the_document_is_given_to_every_key(api: ApiHarness) -> None:
    answer = await api.get("/openapi.json", user=member("north"))
    assert answer.json()["openapi"].startswith("3.1")
    assert answer.json()["info"]["version"] == __version__


async def test_settings_are_shown_to_administrators_only(api: ApiHarness) -> None:
    assert (await api.get("/settings")).json() == {"settings": [], "notices": []}
    for user in (member("north"), domain_admin("north")):
        assert (await api.get("/settings", user=user)).status_code in {403, 404}
    assert (await api.get("/settings", user=None)).status_code == 401
