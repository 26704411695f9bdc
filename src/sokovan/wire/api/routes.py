"""JSON types of routes: the endpoints of a deployment as proxies see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sokovan.wire.api.bodies import StrictBody
from sokovan.wire.api.deployments import DeploymentAccess, RoutingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteBody(StrictBody):
    """Changes of a route; what is not given stays.

    `weights` are those of replicas by number; a replica that is not named has weight 1. `shares`
    are percentages of the requests by revision; that of a canary which is not named follows its
    steps. The routing `sticky` knows a session by `sticky_by`: `header:NAME` or `cookie:NAME`.
    """

    weights: dict[str, int] | None = None
    shares: dict[str, int] | None = None
    model_names: list[str] | None = None
    routing: RoutingPolicy | None = None
    sticky_by: str | None = None
    access: DeploymentAccess | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteEndpointView:
    """The endpoint of one replica, and the reports of proxies on it.

    `weight` is the one in effect. `healthy` is None while no proxy has checked it. Of the
    requests that are `outstanding`, `waiting` are in the engine's own queue. Of the last
    `answers`, `failures` failed; `failing`: again and again, while another replica answers.
    `ejected` proxies send it nothing for the time being; `ejections` counts how often.
    """

    replica: int
    revision: int
    status: str
    weight: int
    agent: str
    port: int
    healthy: bool | None = None
    outstanding: int = 0
    served: int = 0
    error: str = ""
    waiting: int = 0
    answers: int = 0
    failures: int = 0
    failing: bool = False
    ejected: int = 0
    ejections: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteShareView:
    """The share of the requests that one revision gets, in tenths of a percent."""

    revision: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteView:
    """The route of one deployment.

    `table_version` is that of the table with its entry; `proxies` report, and `acknowledged`
    of them use that table. With `holding` requests wait for a replica to start; `refusal` says
    why they do not. `shares` are those that were set, in percent by revision. `sticky_by` is what
    the routing `sticky` knows a session by.
    """

    deployment: str
    name: str
    status: str
    models: list[str]
    access: str
    routing: str
    weights: dict[str, int]
    table_version: int = 0
    proxies: int = 0
    acknowledged: int = 0
    holding: bool = False
    refusal: str = ""
    revisions: list[RouteShareView] = field(default_factory=list)
    endpoints: list[RouteEndpointView] = field(default_factory=list)
    url: str = ""
    shares: dict[str, int] = field(default_factory=dict)
    sticky_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayView:
    """The gateway of one proxy process, as it reported last.

    `url` is where a load balancer reaches it; empty if the proxy does not know. Processes of
    one proxy have the same. `current`: it reports now, and uses the newest table.
    """

    proxy: str
    url: str
    reporting: bool
    current: bool
    reported_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayList:
    """The gateways that reported within a day, by URL."""

    items: list[GatewayView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteExport:
    """Gateways and routes for a proxy before them; there is no secret in it.

    Replicas accept connections of gateways only, which add a secret of the replica's own.
    """

    gateways: list[GatewayView]
    routes: list[RouteView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePage:
    """Routes, newest first."""

    items: list[RouteView]
    next: str | None = None
