"""The route table: what a proxy needs to serve requests without the manager.

A proxy asks `GET /api/v1/serving/table?epoch=E&version=V&wait_s=N` and gets a TableUpdate:
the whole table, or what has changed since version V. Readers skip unknown fields, so that
a release may add optional ones.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

TABLE_PATH = "/api/v1/serving/table"
# A proxy that asks for longer is answered after this time.
WAIT_MAX_S = 60

ROUTES_MAX = 10_000
ENDPOINTS_MAX = 1_024
REVISIONS_MAX = 16
MODELS_MAX = 64
KEYS_MAX = 100_000
WEIGHT_MAX = 1_000

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Identifier: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[!-~]+\Z")]
ModelName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
# Of a request head: no space, no control character, nothing beyond ASCII.
HeadText: TypeAlias = Annotated[str, Meta(max_length=1024, pattern=r"^[!-~]*\Z")]
HeaderName: TypeAlias = Annotated[str, Meta(max_length=100, pattern=r"^[a-z0-9-]*\Z")]
Milliseconds: TypeAlias = Annotated[int, Meta(ge=1, le=86_400_000)]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65_535)]
Weight: TypeAlias = Annotated[int, Meta(ge=0, le=WEIGHT_MAX)]
Sentence: TypeAlias = Annotated[str, Meta(max_length=2000)]

EndpointStatus: TypeAlias = Literal["WARMING", "ACTIVE", "UNHEALTHY", "DRAINING"]
RoutePolicy: TypeAlias = Literal["least-load", "prefix", "sticky", "round-robin"]
RouteAccess: TypeAlias = Literal["private", "project", "public"]
EventUsage: TypeAlias = Literal["", "usage", "timings"]
KeyKind: TypeAlias = Literal["endpoint", "user"]


class ProbeTerms(Struct, frozen=True, omit_defaults=True):
    """How the health of an endpoint is checked: by GET of a path, or by connecting.

    An empty path means a TCP connection. An endpoint that is not yet ACTIVE is checked every
    `warming_ms`, others every `interval_ms`. With a `smoke_path`, one that is not ACTIVE also
    answers a request for one token there before it is reported as healthy. At `metrics_path`
    an engine says how many requests it has.
    """

    path: Annotated[str, Meta(max_length=1024, pattern=r"^(/[!-~]*)?\Z")] = ""
    warming_ms: Milliseconds = 1_000
    interval_ms: Milliseconds = 5_000
    timeout_ms: Milliseconds = 5_000
    smoke_path: Annotated[str, Meta(max_length=1024, pattern=r"^(/[!-~]*)?\Z")] = ""
    metrics_path: Annotated[str, Meta(max_length=1024, pattern=r"^(/[!-~]*)?\Z")] = ""


class EndpointEntry(Struct, frozen=True, omit_defaults=True):
    """The address of one replica: a kernel in one attempt.

    `endpoint_id` is `KERNEL.ATTEMPT`, so that a restarted kernel is another endpoint. A proxy
    sends requests to ACTIVE ones only and checks the health of all but DRAINING ones.
    `secret` is the key that the engine expects of the proxy; empty: none. `upstream_model`
    is the engine's name of the model, if it differs from the requested one. `listeners` are the
    sockets at its port, as a proxy noted them on its disk; the manager knows none. With
    `agent` it is on another machine: host and port are those of that agent's data listener,
    which connects to `kernel_port` for the `ticket`. `event_usage` says how the engine reports
    the tokens so far with each event of a stream, if it is asked to: as `usage` (asked for by
    `continuous_usage_stats`), or as `timings` (by `timings_per_token`); empty: it cannot.
    """

    endpoint_id: Identifier
    revision: Count
    host: Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9.:_-]+\Z")]
    port: Port
    state: EndpointStatus
    secret: HeadText = ""
    upstream_model: Annotated[str, Meta(max_length=512)] = ""
    weight: Weight = 1
    probe: ProbeTerms = ProbeTerms()
    listeners: Annotated[tuple[Count, ...], Meta(max_length=1_024)] = ()
    agent: Annotated[str, Meta(max_length=200)] = ""
    kernel_port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    ticket: HeadText = ""
    event_usage: EventUsage = ""


class RevisionEntry(Struct, frozen=True, omit_defaults=True):
    """One revision of a deployment: its share of the requests, its limits.

    A revision of weight 0 gets no request. `concurrency_max` is the number of requests that
    an endpoint has at once.
    """

    revision: Count
    weight: Weight = WEIGHT_MAX
    concurrency_max: Annotated[int, Meta(ge=1, le=100_000)] = 64


class RouteLimits(Struct, frozen=True, omit_defaults=True):
    """Limits of the requests of a route; `cold_wait_ms` is that of held requests."""

    queued_max: Annotated[int, Meta(ge=0, le=100_000)] = 1_000
    queue_wait_ms: Milliseconds = 30_000
    cold_wait_ms: Milliseconds = 600_000
    first_byte_ms: Milliseconds = 600_000
    silence_ms: Milliseconds = 120_000
    body_bytes_max: Annotated[int, Meta(ge=1, le=1 << 30)] = 32 << 20


class RouteRefusal(Struct, frozen=True):
    """Why no replica can start; held requests are refused with it at once."""

    code: Identifier
    text: Sentence


class RouteEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The route of one deployment.

    `models` are the served model names; `name` is one of them always. With `holding` no
    request is sent to an endpoint: requests wait, up to `cold_wait_ms`, for a replica to
    become ACTIVE. `sticky_header` and `sticky_cookie` name the session for the policy `sticky`.
    With `inference` the requests of `/v1/...` may be retried after they were sent.
    """

    deployment_id: Identifier
    name: Identifier
    project: Identifier
    owner: Identifier
    models: Annotated[tuple[ModelName, ...], Meta(max_length=MODELS_MAX)] = ()
    access: RouteAccess = "private"
    policy: RoutePolicy = "prefix"
    sticky_header: HeaderName = "x-session-id"
    sticky_cookie: HeadText = ""
    inference: bool = True
    holding: bool = False
    refusal: RouteRefusal | None = None
    revisions: Annotated[tuple[RevisionEntry, ...], Meta(max_length=REVISIONS_MAX)] = ()
    endpoints: Annotated[tuple[EndpointEntry, ...], Meta(max_length=ENDPOINTS_MAX)] = ()
    limits: RouteLimits = RouteLimits()


class KeyLimits(Struct, frozen=True, omit_defaults=True):
    """Limits of one key; None is unlimited.

    With `budgeted` the key has tokens per month, of which proxies get parts in the answers
    to their reports.
    """

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrency_max: Count | None = None
    budgeted: bool = False


class KeyEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key that may call deployments.

    `digest` is HMAC-SHA256 of the key under the table's `digest_key`, in hexadecimal. A key
    of kind `endpoint` may use the listed deployments. A key of kind `user` may use those of
    its owner, those with access `project` of its projects, and public ones. `models` limits
    both further; none: no further limit. `expires_at_ms` 0: never.
    """

    key_id: Identifier
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    kind: KeyKind = "endpoint"
    owner: Annotated[str, Meta(max_length=200)] = ""
    projects: Annotated[tuple[Identifier, ...], Meta(max_length=1_000)] = ()
    deployments: Annotated[tuple[Identifier, ...], Meta(max_length=1_000)] = ()
    models: Annotated[tuple[ModelName, ...], Meta(max_length=MODELS_MAX)] = ()
    expires_at_ms: Count = 0
    limits: KeyLimits = KeyLimits()


class TableUpdate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole table, or what has changed since version `base`.

    Versions are comparable within an epoch only. Without `base`, routes and keys are all that
    there are; with it, they are those that were changed, and `removed` and `keys_removed` are
    ids that are gone. A delta may be applied to any version from `base` on.
    """

    epoch: Identifier
    version: Count
    base: Count | None = None
    digest_key: HeadText = ""
    routes: Annotated[tuple[RouteEntry, ...], Meta(max_length=ROUTES_MAX)] = ()
    removed: Annotated[tuple[Identifier, ...], Meta(max_length=ROUTES_MAX)] = ()
    keys: Annotated[tuple[KeyEntry, ...], Meta(max_length=KEYS_MAX)] = ()
    keys_removed: Annotated[tuple[Identifier, ...], Meta(max_length=KEYS_MAX)] = ()
