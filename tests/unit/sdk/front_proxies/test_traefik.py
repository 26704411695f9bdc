"""A front proxy as a dynamic configuration of Traefik."""

from __future__ import annotations

import json

from sokovan.sdk.front_proxies.front_proxy import front_proxy
from sokovan.sdk.front_proxies.traefik import traefik
from tests.unit.sdk.front_proxies.exports import export_of


def test_a_router_has_the_paths_of_clients_and_a_service_the_gateways() -> None:
    written = json.loads(traefik(front_proxy(export_of("http://10.0.0.3:7648", "http://10.0.0.4:7648"))))
    assert written["http"]["routers"]["sokovan"] == {
        "entryPoints": ["web"],
        "rule": "Path(`/v1`) || PathPrefix(`/v1/`) || Path(`/d`) || PathPrefix(`/d/`)",
        "service": "gateways",
    }
    balancer = written["http"]["services"]["gateways"]["loadBalancer"]
    assert balancer["servers"] == [{"url": "http://10.0.0.3:7648"}, {"url": "http://10.0.0.4:7648"}]
    assert "tls" not in written


def test_with_a_certificate_it_has_tls_on_both_sides() -> None:
    written = json.loads(traefik(front_proxy(export_of("https://10.0.0.3:7648"), certificate="m.pem", ca="ca.pem")))
    assert written["http"]["routers"]["sokovan"]["tls"] == {}
    assert written["tls"] == {"certificates": [{"certFile": "m.pem", "keyFile": "m.pem"}]}
    assert written["http"]["serversTransports"]["gateways"]["rootCAs"] == ["ca.pem"]
