"""Contract of `ports.repositories.routes`: leases of monthly token budgets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from sokovan.domain.ids import EndpointTokenId
from sokovan.domain.serving.budget import BudgetGrant, BudgetNeed, month_of
from sokovan.domain.serving.records import ProxyRecord, ReportOutcome, UsageCount
from sokovan.domain.serving.token import EndpointTokenSpec, TokenLimits
from sokovan.ports.storage import UnitOfWork
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.repositories.routes import report_of
from sokovan.testing.contracts.repositories.serving import created
from sokovan.testing.stored_cluster import StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
BUDGET = 6_400


async def _budgeted(cluster: StoredCluster) -> EndpointTokenSpec:
    """A new token with a budget."""
    spec = EndpointTokenSpec(
        token_id=EndpointTokenId(cluster.new("tok")),
        deployment_id=(await created(cluster)).deployment_id,
        limits=TokenLimits(tokens_per_month=BUDGET),
    )
    await cluster.store.run(lambda unit: unit.endpoint_tokens.create(spec, cluster.new("digest"), "u"))
    return spec


async def _reported(
    cluster: StoredCluster, proxy: ProxyRecord, key: EndpointTokenSpec, *needs: BudgetNeed, **used: int
) -> ReportOutcome:
    """Report needs, and usage if tokens are given with the number of their entry."""
    now = (await cluster.store.read(_now_ms)) // 60_000
    usage = [
        UsageCount(
            sequence=used["sequence"],
            minute=used.get("minute", now),
            key_id=key.token_id,
            deployment_id=key.deployment_id,
            revision=1,
            requests=1,
            output_tokens=used["tokens"],
        )
        for _ in range(bool(used))
    ]
    return await cluster.store.run(lambda unit: unit.proxies.report(proxy, usage, needs))


async def _now_ms(unit: UnitOfWork) -> int:
    return unit.now_ms


def _need(key: EndpointTokenSpec, tokens: int = 0, *, returned: bool = False) -> BudgetNeed:
    return BudgetNeed(key_id=key.token_id, tokens=tokens, returned=returned)


def _only(outcome: ReportOutcome) -> BudgetGrant:
    [grant] = outcome.grants
    return grant


async def leases_of_all_proxies_are_at_most_the_budget(cluster: StoredCluster) -> None:
    """The last one gets what is left."""
    key, first, second = await _budgeted(cluster), report_of(cluster), report_of(cluster)
    small = _only(await _reported(cluster, first, key, _need(key, 1)))
    expect((small.tokens, small.budget, small.unleased) == (100, BUDGET, 6_300), f"the lease is {small}")
    again = _only(await _reported(cluster, first, key, _need(key, 60)))
    expect(again.tokens == 100, f"a lease that is enough grows to {again.tokens}")
    large = _only(await _reported(cluster, second, key, _need(key, 10**6)))
    expect((large.tokens, large.unleased) == (6_300, 0), f"the lease is {large}")
    none = _only(await _reported(cluster, first, key, _need(key, 101)))
    expect((none.tokens, none.unleased) == (100, 0), f"the lease is {none}")
    unknown = await _reported(cluster, first, key, BudgetNeed(key_id="no-such-key", tokens=1))
    expect(not unknown.grants, "a key without a budget gets a lease")


async def usage_counts_against_the_lease_once(cluster: StoredCluster) -> None:
    """More than the lease counts too, and leaves less for others."""
    key, proxy = await _budgeted(cluster), report_of(cluster)
    await _reported(cluster, proxy, key, _need(key, 1_000))
    for _ in range(2):
        grant = _only(await _reported(cluster, proxy, key, _need(key), sequence=1, tokens=700))
        expect((grant.tokens, grant.unleased) == (300, 5_400), f"after 700 tokens the lease is {grant}")
    over = _only(await _reported(cluster, proxy, key, _need(key), sequence=2, tokens=1_300))
    expect((over.tokens, over.unleased) == (100, 4_300), f"after 2000 tokens the lease is {over}")


async def a_lease_that_is_given_back_is_free_for_others(cluster: StoredCluster) -> None:
    """The part of it that was used is not."""
    key, first, second = await _budgeted(cluster), report_of(cluster), report_of(cluster)
    await _reported(cluster, first, key, _need(key, BUDGET))
    await _reported(cluster, first, key, sequence=1, tokens=400)
    back = _only(await _reported(cluster, first, key, _need(key, returned=True)))
    expect((back.tokens, back.unleased) == (0, 6_000), f"the lease is {back}")
    grant = _only(await _reported(cluster, second, key, _need(key, BUDGET)))
    expect(grant.tokens == 6_000, f"the other proxy gets {grant.tokens}")


async def a_proxy_that_was_started_again_has_no_lease(cluster: StoredCluster) -> None:
    """The rest of its lease is free; its spooled usage counts."""
    key, first, second = await _budgeted(cluster), report_of(cluster), report_of(cluster)
    await _reported(cluster, first, key, _need(key, BUDGET))
    restarted = replace(first, incarnation=first.incarnation + 1)
    await _reported(cluster, restarted, key, sequence=1, tokens=400)
    grant = _only(await _reported(cluster, second, key, _need(key, BUDGET)))
    expect((grant.tokens, grant.unleased) == (6_000, 0), f"the other proxy gets {grant}")


async def each_month_has_the_whole_budget(cluster: StoredCluster) -> None:
    """Usage counts in the month of its minute."""
    key, proxy = await _budgeted(cluster), report_of(cluster)
    outcome = await _reported(cluster, proxy, key, _need(key, 1))
    earlier = month_of(outcome.month.start - 1)
    expect(earlier.end == outcome.month.start, "the months do not follow")
    grant = _only(await _reported(cluster, proxy, key, _need(key, 1), sequence=1, tokens=BUDGET, minute=earlier.start))
    expect((grant.tokens, grant.unleased) == (100, 6_300), f"usage of the last month counts: {grant}")


CHECKS: tuple[Check, ...] = (
    leases_of_all_proxies_are_at_most_the_budget,
    usage_counts_against_the_lease_once,
    a_lease_that_is_given_back_is_free_for_others,
    a_proxy_that_was_started_again_has_no_lease,
    each_month_has_the_whole_budget,
)
