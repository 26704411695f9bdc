"""A front proxy as a configuration of Envoy."""

from __future__ import annotations

import json
from typing import Any

from sokovan.sdk.front_proxies.front_proxy import (
    CHECK_S,
    CONNECT_S,
    HEAD_S,
    IDLE_S,
    READY_PATH,
    SILENCE_S,
    Address,
    FrontProxy,
)

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_CONNECTIONS = f"{_EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = f"{_EXTENSIONS}.filters.http.router.v3.Router"
_TLS = f"{_EXTENSIONS}.transport_sockets.tls.v3"
_CLUSTER = "gateways"
# The limits of a cluster by default are 1,024: fewer than streams that are open at once.
_UNLIMITED = 1_000_000


def envoy(front: FrontProxy) -> str:
    """The configuration, for `envoy -c`; JSON, which is YAML too."""
    resources = {"listeners": [_listener(front)], "clusters": [_cluster(front)]}
    return json.dumps({"static_resources": resources}, indent=2) + "\n"


def _listener(front: FrontProxy) -> dict[str, Any]:
    routes = [
        {"match": {"path_separated_prefix": path}, "route": {"cluster": _CLUSTER, "timeout": "0s"}}
        for path in front.paths
    ]
    connections = {
        "@type": _CONNECTIONS,
        "stat_prefix": "sokovan",
        "use_remote_address": True,
        "normalize_path": True,
        "request_headers_timeout": f"{HEAD_S}s",
        "stream_idle_timeout": f"{SILENCE_S}s",
        "common_http_protocol_options": {"idle_timeout": f"{IDLE_S}s"},
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "route_config": {"virtual_hosts": [{"name": "sokovan", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}}],
    }
    chain: dict[str, Any] = {
        "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": connections}]
    }
    if front.certificate:
        files = {
            "certificate_chain": {"filename": front.certificate},
            "private_key": {"filename": front.key or front.certificate},
        }
        common = {"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": [files]}
        chain["transport_socket"] = _tls("DownstreamTlsContext", {"common_tls_context": common})
    return {"name": "sokovan", "address": _address(front.listen), "filter_chains": [chain]}


def _cluster(front: FrontProxy) -> dict[str, Any]:
    limits = ("max_connections", "max_pending_requests", "max_requests")
    cluster: dict[str, Any] = {
        "name": _CLUSTER,
        "type": "STRICT_DNS",
        "connect_timeout": f"{CONNECT_S}s",
        "lb_policy": "LEAST_REQUEST",
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, _UNLIMITED)]},
        "health_checks": [
            {
                "timeout": f"{CHECK_S}s",
                "interval": f"{CHECK_S}s",
                "unhealthy_threshold": 3,
                "healthy_threshold": 2,
                "http_health_check": {"path": READY_PATH},
            }
        ],
        "load_assignment": {
            "cluster_name": _CLUSTER,
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": _address(one.address)}} for one in front.gateways]}
            ],
        },
    }
    hosts = {one.address.host for one in front.gateways if one.encrypted}
    if hosts:
        literal = {one.address.host for one in front.gateways if one.address.is_literal}
        names = [
            {"san_type": "IP_ADDRESS" if host in literal else "DNS", "matcher": {"exact": host}}
            for host in sorted(hosts)
        ]
        trust = {"trusted_ca": {"filename": front.ca}, "match_typed_subject_alt_names": names}
        context = {"auto_host_sni": True, "common_tls_context": {"validation_context": trust}}
        cluster["transport_socket"] = _tls("UpstreamTlsContext", context)
    return cluster


def _address(address: Address) -> dict[str, Any]:
    return {"socket_address": {"address": address.host, "port_value": address.port}}


def _tls(kind: str, context: dict[str, Any]) -> dict[str, Any]:
    return {"name": "envoy.transport_sockets.tls", "typed_config": {"@type": f"{_TLS}.{kind}", **context}}
