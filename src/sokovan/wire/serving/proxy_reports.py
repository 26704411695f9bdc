"""Reports of a proxy to the manager, and their answers.

They are sent by `POST /api/v1/serving/reports`. Counters only grow within an incarnation
of a proxy; a lost report loses nothing. Usage is numbered: the manager ingests each number
of a proxy once and answers with the last one.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from sokovan.wire.serving.route_table import REVISIONS_MAX, ROUTES_MAX, Count, Identifier, Sentence

REPORTS_PATH = "/api/v1/serving/reports"
# Upper bounds in milliseconds of the counters of the time to the first byte; one more counts those above.
FIRST_BYTE_BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
# Of the histograms of what endpoints did lately, which have the same bounds.
LATENCY_WINDOW_S = 300
# How many of the last answers of an endpoint are counted.
ANSWERS_MAX = 32
USAGE_MAX = 10_000
BUDGETS_MAX = 10_000

# Since 1970, and early enough for a calendar.
Minute: TypeAlias = Annotated[int, Meta(ge=0, le=2**31)]
GatewayUrl: TypeAlias = Annotated[str, Meta(max_length=300, pattern=r"^(https?://[A-Za-z0-9.:_\[\]-]+)?\Z")]
# Counts of times up to each of FIRST_BYTE_BOUNDS_MS, and above; those that are missing at the end are 0.
Histogram: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=len(FIRST_BYTE_BOUNDS_MS) + 1)]
ReportedHealth: TypeAlias = Literal["unknown", "healthy", "unhealthy"]


class EndpointReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The observations of one endpoint by one proxy.

    `stalled`: requests are outstanding and no byte has come for a minute, though the probe
    answers. `ejected`: the proxy sends it nothing for the time being. `smoke_failures` counts
    the smoke requests that failed in a row. `waiting` are the requests in the engine's own
    queue, those of other proxies too. Of its last `answers` (ANSWERS_MAX at most), `failures`
    failed. `failing`: it fails again and again, though its probe answers, and another endpoint
    has answered a key whose answers failed here. `ejections` counts all of them.
    `began_recently` and `ended_recently` are histograms of the answers of the last
    LATENCY_WINDOW_S: the time from a request to the first part of its answer, and to its end.
    Errors are left out.
    """

    endpoint_id: Identifier
    health: ReportedHealth = "unknown"
    outstanding: Count = 0
    served: Count = 0
    stalled: bool = False
    ejected: bool = False
    last_error: Sentence = ""
    smoke_failures: Count = 0
    waiting: Count = 0
    answers: Count = 0
    failures: Count = 0
    failing: bool = False
    ejections: Count = 0
    began_recently: Histogram = ()
    ended_recently: Histogram = ()


class RevisionReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counters of the requests of one revision.

    `failed` counts answers of the endpoint with a status of 500 or more, time-outs and broken
    connections. `first_byte_counts` has one more entry than FIRST_BYTE_BOUNDS_MS.
    """

    revision: Count
    served: Count = 0
    failed: Count = 0
    first_byte_ms_sum: Count = 0
    first_byte_counts: Histogram = ()


class RouteReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Demand of one route: gauges of now, and counters.

    `arrived` counts every request that was accepted for the route, held ones included, so
    that demand between two reports is not lost. `holding` acknowledges that requests are held.
    """

    deployment_id: Identifier
    in_flight: Count = 0
    queued: Count = 0
    arrived: Count = 0
    served: Count = 0
    refused: Count = 0
    holding: bool = False
    revisions: Annotated[tuple[RevisionReport, ...], Meta(max_length=REVISIONS_MAX)] = ()


class UsageEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Usage of one key on one revision in one minute.

    `minute` counts minutes since 1970. `estimated_requests` are those whose tokens the engine
    did not report; their tokens are in `estimated_tokens`, not in the other counts.
    """

    sequence: Annotated[int, Meta(ge=1, le=2**62)]
    minute: Count
    key_id: Annotated[str, Meta(max_length=200)]
    deployment_id: Identifier
    revision: Count
    requests: Count = 0
    failed: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    estimated_requests: Count = 0
    estimated_tokens: Count = 0


class BudgetReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens that a proxy needs for a budgeted key, beyond the usage it reported.

    With `returned` it gives back its lease, which it no longer uses.
    """

    key_id: Identifier
    needed: Count = 0
    returned: bool = False


class ProxyReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One report; `epoch` and `version` acknowledge the table in use.

    `proxy_id` is that of a folder with spooled usage, `incarnation` that of one start, and
    `number` counts its reports, so that one that comes late changes nothing but usage. `url` is
    the gateway's for other programs, such as a load balancer; empty if it is not known.
    """

    proxy_id: Identifier
    incarnation: Count
    number: Count = 0
    epoch: Annotated[str, Meta(max_length=200)] = ""
    version: Count = 0
    url: GatewayUrl = ""
    endpoints: Annotated[tuple[EndpointReport, ...], Meta(max_length=100_000)] = ()
    routes: Annotated[tuple[RouteReport, ...], Meta(max_length=ROUTES_MAX)] = ()
    usage: Annotated[tuple[UsageEntry, ...], Meta(max_length=USAGE_MAX)] = ()
    budgets: Annotated[tuple[BudgetReport, ...], Meta(max_length=BUDGETS_MAX)] = ()


class BudgetLease(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens that a key may use at one proxy, beyond the usage that is stored.

    `budget` is that of the month, `unleased` the part of it that no proxy has.
    """

    key_id: Identifier
    tokens: Count
    budget: Count
    unleased: Count = 0


class ReportAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a report: usage is stored up to `usage_sequence`.

    Leases are of the month from minute `month_start` until before `month_end`.
    """

    usage_sequence: Count = 0
    month_start: Minute = 0
    month_end: Minute = 0
    budgets: Annotated[tuple[BudgetLease, ...], Meta(max_length=BUDGETS_MAX)] = ()
