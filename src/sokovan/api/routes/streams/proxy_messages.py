"""The manager's side of proxies: the table they serve from, and their reports.

The paths are outside the documented API: only proxies call them, with a credential of
their own.
"""

from __future__ import annotations

import hashlib
import hmac

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sokovan.api.access.authentication import token_digest
from sokovan.api.context import ApiContext
from sokovan.api.request_bodies import JSON_MEDIA
from sokovan.domain.ids import DeploymentId
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.serving.budget import BudgetNeed
from sokovan.domain.serving.records import (
    EndpointObservation,
    EndpointTokenRecord,
    ProxyRecord,
    ReportOutcome,
    RevisionTraffic,
    RouteDemand,
    ServingTable,
    UsageCount,
)
from sokovan.orchestrator.coordinator import DEPLOYMENTS_HINT, ROUTES_HINT
from sokovan.orchestrator.routes.table_entries import entry_of
from sokovan.ports.repositories.credentials import Principal
from sokovan.wire.serving.key_questions import KEYS_PATH, KeyAnswer
from sokovan.wire.serving.proxy_reports import REPORTS_PATH, BudgetLease, ProxyReport, ReportAnswer, UsageEntry
from sokovan.wire.serving.route_table import TABLE_PATH, WAIT_MAX_S, KeyEntry, KeyLimits, TableUpdate
from sokovan.wire.serving.serving_codec import MalformedMessage, decode_question, decode_report, encode

# How often a waiting request looks for a new version: one row.
POLL_S = 0.1
# Begins the ids of users' keys in the usage of deployments.
USER_KEY = "key:"
_HEALTH = {"unknown": None, "healthy": True, "unhealthy": False}


class ProxyMessages:
    """Gives proxies their table, and stores what they report."""

    def __init__(self, context: ApiContext) -> None:
        self._store, self._clock = context.store, context.dependencies.clock
        self._hints, self._hub = context.dependencies.hints, context.streams.hub
        self._digest_key, self._pepper = context.settings.digest_key, context.settings.pepper

    def routes(self) -> list[Route]:
        """The three routes."""
        return [
            Route(TABLE_PATH, self.table, methods=["GET"], name="serving_table"),
            Route(REPORTS_PATH, self.report, methods=["POST"], name="serving_reports"),
            Route(KEYS_PATH, self.key, methods=["POST"], name="serving_keys"),
        ]

    async def table(self, request: Request) -> Response:
        """The changes since a version, or the whole table; waits until there are any."""
        epoch, version = request.query_params.get("epoch", ""), _number(request, "version")
        ends_ms = self._clock.monotonic_ms() + 1000 * min(_number(request, "wait_s"), WAIT_MAX_S)
        while True:
            found = await self._store.read(lambda unit: unit.routes.version())
            # A version that is ahead is of a database that was since restored.
            known = epoch != "" and epoch == found[0] and version <= found[1]
            waits = known and version == found[1] and not self._hub.closing
            if not waits or self._clock.monotonic_ms() >= ends_ms:
                break
            await self._clock.sleep(POLL_S)
        since = version if known else None
        table = await self._store.read(lambda unit: unit.routes.table(since=since))
        return Response(encode(_update(table, since, self._digest_key)), media_type=JSON_MEDIA)

    async def report(self, request: Request) -> Response:
        """Store a report; usage in it is ingested once."""
        try:
            report = decode_report(await request.body())
        except MalformedMessage as error:
            raise InvalidRequest([Problem("body", str(error))]) from error
        record, usage = _record(report), [_usage(one) for one in report.usage]
        needs = [BudgetNeed(key_id=one.key_id, tokens=one.needed, returned=one.returned) for one in report.budgets]
        outcome = await self._store.run(lambda unit: unit.proxies.report(record, usage, needs))
        for hint in (ROUTES_HINT, DEPLOYMENTS_HINT):
            await self._hints.set(hint)
        return Response(encode(_answer(outcome)), media_type=JSON_MEDIA)

    async def key(self, request: Request) -> Response:
        """The entry of a key that is not in a proxy's table: of a user, or a new token."""
        try:
            secret = decode_question(await request.body()).key
        except MalformedMessage as error:
            raise InvalidRequest([Problem("body", str(error))]) from error
        digest = hmac.new(self._digest_key.encode(), secret.encode(), hashlib.sha256).hexdigest()
        found = await self._store.read(lambda unit: unit.endpoint_tokens.find(digest))
        if found is not None:
            return Response(encode(KeyAnswer(_key(found))), media_type=JSON_MEDIA)
        # From the store, not from a cache: proxies keep the answer for seconds as it is.
        of_user = token_digest(secret, self._pepper)
        principal = await self._store.read(lambda unit: unit.credentials.find(of_user))
        entry = None if principal is None else _user_key(principal, digest)
        return Response(encode(KeyAnswer(entry)), media_type=JSON_MEDIA)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InvalidRequest([Problem(f"query/{name}", "is not a whole number")])
    return int(text)


def _update(table: ServingTable, since: int | None, digest_key: str) -> TableUpdate:
    return TableUpdate(
        epoch=table.epoch or "empty",
        version=table.version,
        base=since,
        digest_key=digest_key,
        routes=tuple(entry_of(one.entry) for one in table.routes if one.entry),
        removed=tuple(str(one.spec.deployment_id) for one in table.routes if not one.entry),
        keys=tuple(_key(one) for one in table.tokens if one.revoked_ms is None),
        keys_removed=tuple(str(one.spec.token_id) for one in table.tokens if one.revoked_ms is not None),
    )


def _key(token: EndpointTokenRecord) -> KeyEntry:
    spec, limits = token.spec, token.spec.limits
    return KeyEntry(
        key_id=spec.token_id,
        digest=token.digest,
        owner=token.created_by,
        deployments=(spec.deployment_id,),
        models=spec.models,
        expires_at_ms=spec.expires_ms or 0,
        limits=KeyLimits(
            requests_per_minute=limits.requests_per_minute,
            tokens_per_minute=limits.tokens_per_minute,
            concurrency_max=limits.concurrency,
            budgeted=limits.tokens_per_month is not None,
        ),
    )


def _user_key(principal: Principal, digest: str) -> KeyEntry:
    return KeyEntry(
        key_id=f"{USER_KEY}{principal.keypair.access_key}",
        digest=digest,
        kind="user",
        owner=principal.user.name,
        projects=tuple(principal.user.groups),
    )


def _answer(outcome: ReportOutcome) -> ReportAnswer:
    return ReportAnswer(
        usage_sequence=outcome.usage_sequence,
        month_start=outcome.month.start,
        month_end=outcome.month.end,
        budgets=tuple(
            BudgetLease(key_id=one.key_id, tokens=one.tokens, budget=one.budget, unleased=one.unleased)
            for one in outcome.grants
        ),
    )


def _record(report: ProxyReport) -> ProxyRecord:
    return ProxyRecord(
        proxy_id=report.proxy_id,
        incarnation=report.incarnation,
        number=report.number,
        epoch=report.epoch,
        version=report.version,
        reported_ms=0,
        url=report.url,
        endpoints={
            one.endpoint_id: EndpointObservation(
                healthy=_HEALTH[one.health],
                outstanding=one.outstanding,
                served=one.served,
                stalled=one.stalled,
                error=one.last_error,
                smoke_failures=one.smoke_failures,
                waiting=one.waiting,
                answers=one.answers,
                failures=one.failures,
                failing=one.failing,
                ejected=one.ejected,
                ejections=one.ejections,
                began_recently=one.began_recently,
                ended_recently=one.ended_recently,
            )
            for one in report.endpoints
        },
        routes={
            one.deployment_id: RouteDemand(
                in_flight=one.in_flight,
                queued=one.queued,
                arrived=one.arrived,
                served=one.served,
                holding=one.holding,
                revisions={
                    str(each.revision): RevisionTraffic(
                        served=each.served, failed=each.failed, first_byte_counts=each.first_byte_counts
                    )
                    for each in one.revisions
                },
            )
            for one in report.routes
        },
    )


def _usage(entry: UsageEntry) -> UsageCount:
    return UsageCount(
        sequence=entry.sequence,
        minute=entry.minute,
        key_id=entry.key_id,
        deployment_id=DeploymentId(entry.deployment_id),
        revision=entry.revision,
        requests=entry.requests,
        failed=entry.failed,
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        estimated_requests=entry.estimated_requests,
        estimated_tokens=entry.estimated_tokens,
    )
