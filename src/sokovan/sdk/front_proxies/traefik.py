"""A front proxy as a dynamic configuration of Traefik, for its file provider."""

from __future__ import annotations

import json
from typing import Any

from sokovan.sdk.front_proxies.front_proxy import CHECK_S, CONNECT_S, READY_PATH, SILENCE_S, FrontProxy

# The entry points are in Traefik's static configuration.
ENCRYPTED, PLAIN = "websecure", "web"


def traefik(front: FrontProxy) -> str:
    """The configuration, for a file `*.yaml`; JSON, which is YAML too.

    Traefik listens where its entry point `websecure` says, or `web` without a certificate.
    """
    rules = [rule for path in front.paths for rule in (f"Path(`{path}`)", f"PathPrefix(`{path}/`)")]
    router: dict[str, Any] = {
        "entryPoints": [ENCRYPTED if front.certificate else PLAIN],
        "rule": " || ".join(rules),
        "service": "gateways",
    }
    if front.certificate:
        router["tls"] = {}
    scheme = "https" if front.gateways[0].encrypted else "http"
    timeouts = {"dialTimeout": f"{CONNECT_S}s", "responseHeaderTimeout": f"{SILENCE_S}s"}
    transport: dict[str, Any] = {"forwardingTimeouts": timeouts}
    if scheme == "https":
        transport["rootCAs"] = [front.ca]
    balancer = {
        "servers": [{"url": f"{scheme}://{one.address.text}"} for one in front.gateways],
        "healthCheck": {"path": READY_PATH, "interval": f"{CHECK_S}s", "timeout": f"{CHECK_S}s"},
        "serversTransport": "gateways",
    }
    document: dict[str, Any] = {
        "http": {
            "routers": {"sokovan": router},
            "services": {"gateways": {"loadBalancer": balancer}},
            "serversTransports": {"gateways": transport},
        }
    }
    if front.certificate:
        files = {"certFile": front.certificate, "keyFile": front.key or front.certificate}
        document["tls"] = {"certificates": [files]}
    return json.dumps(document, indent=2) + "\n"
