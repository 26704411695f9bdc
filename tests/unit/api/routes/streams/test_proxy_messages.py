"""Proxies get the table and its changes, and report; nobody else can."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from sokovan.domain.ids import DeploymentId, EndpointTokenId
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits
from sokovan.testing.contracts.repositories.routes import published_entry, routed
from sokovan.wire.serving.key_questions import KeyAnswer, KeyQuestion
from sokovan.wire.serving.proxy_reports import BudgetReport, EndpointReport, ProxyReport, RouteReport, UsageEntry
from sokovan.wire.serving.route_table import KeyEntry, RouteEntry, TableUpdate
from tests.unit.api.api_harness import ADMIN, ApiHarness, api_harness, member

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROXY = {"authorization": "Bearer proxy-token"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[ApiHarness]:
    async with api_harness(proxy_token="proxy-token", digest_key="k", failures_per_minute=1000) as made:  # noqa: S106  # of this test only
        yield made


async def table(api: ApiHarness, **query: Any) -> TableUpdate:
    path = "/serving/table?" + "&".join(f"{name}={value}" for name, value in query.items())
    answer = await api.call("GET", path, user=None, headers=PROXY)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=TableUpdate)


async def publish(api: ApiHarness) -> str:
    """Publish a new route; its deployment."""
    route = await routed(api.cluster)
    key = str(route.spec.deployment_id)
    entry = RouteEntry(deployment_id=key, name="chat", project="p", owner="u")
    await published_entry(api.cluster, route, msgspec.json.encode(entry).decode())
    return key


@pytest.mark.slow
async def test_only_the_credential_of_proxies_opens_their_paths(api: ApiHarness) -> None:
    for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic proxy-token"}):
        for method, path in (("GET", "/serving/table"), ("POST", "/serving/reports")):
            assert (await api.call(method, path, user=None, headers=headers)).status_code == 401
    assert (await api.call("GET", "/serving/table", user=ADMIN)).status_code == 401
    assert (await api.call("GET", "/sessions", user=None, headers=PROXY)).status_code == 401


@pytest.mark.slow
async def test_a_proxy_gets_the_whole_table_and_then_changes(api: ApiHarness) -> None:
    first = await publish(api)
    whole = await table(api, version=0)
    assert whole.base is None
    assert first in [one.deployment_id for one in whole.routes]
    assert whole.digest_key == "k"
    second = await publish(api)
    delta = await table(api, epoch=whole.epoch, version=whole.version, wait_s=25)
    assert delta.base == whole.version
    assert [one.deployment_id for one in delta.routes] == [second]
    other = await table(api, epoch="other", version=whole.version)
    assert other.base is None
    ahead = await table(api, epoch=whole.epoch, version=10**9)
    assert ahead.base is None


async def test_without_a_change_the_answer_is_an_empty_delta(api: ApiHarness) -> None:
    await publish(api)
    whole = await table(api)
    same = await table(api, epoch=whole.epoch, version=whole.version, wait_s=0)
    assert (same.base, same.routes, same.version) == (whole.version, (), whole.version)


async def test_removed_routes_and_revoked_tokens_are_changes(api: ApiHarness) -> None:
    key = await publish(api)
    token = EndpointTokenSpec(token_id=EndpointTokenId("tok-1"), deployment_id=DeploymentId(key), models=("m",))
    await api.cluster.store.run(lambda unit: unit.endpoint_tokens.create(token, "0" * 64, "u"))
    whole = await table(api)
    [entry] = [one for one in whole.keys if one.key_id == "tok-1"]
    assert (entry.deployments, entry.models, entry.kind) == ((key,), ("m",), "endpoint")
    await api.cluster.store.run(lambda unit: unit.endpoint_tokens.revoke(token.token_id))
    route = await api.cluster.store.read(lambda unit: unit.routes.of_deployment(DeploymentId(key)))
    assert route is not None
    await published_entry(api.cluster, route, "")
    delta = await table(api, epoch=whole.epoch, version=whole.version)
    assert (delta.removed, delta.keys_removed) == ((key,), ("tok-1",))


async def test_a_report_is_stored_and_its_usage_ingested_once(api: ApiHarness) -> None:
    usage = UsageEntry(sequence=1, minute=7, key_id="k", deployment_id="d", revision=1, requests=3)
    report = ProxyReport(
        proxy_id="p1",
        incarnation=2,
        epoch="e",
        version=4,
        endpoints=(
            EndpointReport(
                endpoint_id="k.1",
                health="healthy",
                outstanding=1,
                answers=9,
                failures=8,
                failing=True,
                ejected=True,
                ejections=3,
                began_recently=(0, 4),
                ended_recently=(0, 0, 3),
            ),
        ),
        routes=(RouteReport(deployment_id="d", in_flight=2, queued=1),),
        usage=(usage,),
    )
    for _ in range(2):
        answer = await api.call(
            "POST", "/serving/reports", user=None, headers=PROXY, content=msgspec.json.encode(report)
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage_sequence"] == 1
    [found] = [
        one for one in await api.cluster.store.read(lambda unit: unit.proxies.live(since_ms=0)) if one.proxy_id == "p1"
    ]
    seen = found.endpoints["k.1"]
    assert (found.version, seen.healthy, found.routes["d"].queued) == (4, True, 1)
    assert (seen.answers, seen.failures, seen.failing, seen.ejected, seen.ejections) == (9, 8, True, True, 3)
    assert (seen.began_recently, seen.ended_recently) == ((0, 4), (0, 0, 3))
    [total] = await api.cluster.store.read(lambda unit: unit.proxies.usage(DeploymentId("d"), since_minute=0))
    assert total.requests == 3


async def test_a_budget_is_leased_in_the_answer_to_a_report(api: ApiHarness) -> None:
    limits = TokenLimits(tokens_per_month=1_000)
    token = EndpointTokenSpec(
        token_id=EndpointTokenId("tok-2"), deployment_id=DeploymentId(await publish(api)), limits=limits
    )
    await api.cluster.store.run(lambda unit: unit.endpoint_tokens.create(token, "1" * 64, "u"))
    [entry] = [one for one in (await table(api)).keys if one.key_id == "tok-2"]
    assert entry.limits.budgeted
    report = ProxyReport(proxy_id="p2", incarnation=1, budgets=(BudgetReport(key_id="tok-2", needed=50),))
    content = msgspec.json.encode(report)
    answer = await api.call("POST", "/serving/reports", user=None, headers=PROXY, content=content)
    assert answer.json()["budgets"] == [{"key_id": "tok-2", "tokens": 50, "budget": 1_000, "unleased": 950}]


async def asked(api: ApiHarness, key: str) -> KeyEntry | None:
    content = msgspec.json.encode(KeyQuestion(key))
    answer = await api.call("POST", "/serving/keys", user=None, headers=PROXY, content=content)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=KeyAnswer).entry


async def test_a_proxy_asks_about_keys_that_are_not_in_its_table(api: ApiHarness) -> None:
    user = member("north")
    entry = await asked(api, api.tokens[user])
    assert entry is not None
    assert (entry.kind, entry.owner, entry.deployments) == ("user", user, ())
    assert entry.projects
    assert entry.key_id.startswith("key:")

    digest = hmac.new(b"k", b"ske_new", "sha256").hexdigest()
    token = EndpointTokenSpec(token_id=EndpointTokenId("tok-3"), deployment_id=DeploymentId(await publish(api)))
    assert await asked(api, "ske_new") is None
    await api.cluster.store.run(lambda unit: unit.endpoint_tokens.create(token, digest, "u"))
    found = await asked(api, "ske_new")
    assert found is not None
    assert (found.key_id, found.digest) == ("tok-3", digest)
    await api.cluster.store.run(lambda unit: unit.endpoint_tokens.revoke(token.token_id))
    assert await asked(api, "ske_new") is None


async def test_only_proxies_may_ask_about_keys(api: ApiHarness) -> None:
    for headers in ({}, {"authorization": f"Bearer {api.tokens[ADMIN]}"}):
        content = msgspec.json.encode(KeyQuestion("ske_new"))
        answer = await api.call("POST", "/serving/keys", user=None, headers=headers, content=content)
        assert answer.status_code == 401
    bad = await api.call("POST", "/serving/keys", user=None, headers=PROXY, content=b'{"key": "a b"}')
    assert bad.status_code == 422


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"proxy_id": "p", "incarnation": -1}'])
async def test_a_malformed_report_is_refused(api: ApiHarness, content: bytes) -> None:
    answer = await api.call("POST", "/serving/reports", user=None, headers=PROXY, content=content)
    assert answer.status_code == 422


@pytest.mark.parametrize("version", ["x", "-1", "1" * 30, "%00"])
async def test_a_version_is_a_number(api: ApiHarness, version: str) -> None:
    answer = await api.call("GET", f"/serving/table?version={version}", user=None, headers=PROXY)
    assert answer.status_code == 422
