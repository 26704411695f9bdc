"""`sokovan route export`."""

from __future__ import annotations

import json
from dataclasses import replace

from sokovan.wire.api.routes import GatewayList
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.wire.api.test_routes import GATEWAY, ROUTE


def test_the_gateways_are_written_and_the_routes_not_read(server: CannedServer, sokovan: Sokovan) -> None:
    unknown = replace(GATEWAY, proxy="p-2", url="")
    server.says("GET gateways", GatewayList(items=[unknown, GATEWAY]))
    code, out, said = sokovan("route", "export", "--format", "haproxy", "--certificate", "m.pem")
    assert code == 0
    assert "server gateway-1 10.0.0.3:7648 ssl verify required" in out
    assert said == "gateway p-2 is left out: start it with --advertise URL, to say where it is reached\n"


def test_only_the_paths_of_a_deployment_go_through(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET gateways", GatewayList(items=[GATEWAY]))
    server.says("GET deployments/qwen/route", ROUTE)
    out = sokovan("route", "export", "--format", "haproxy", "--deployment", "qwen")[1]
    assert "acl for_clients path_beg /d/qwen/ /d/d-1/\n" in out


def test_json_has_gateways_and_routes(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET gateways", GatewayList(items=[GATEWAY]))
    server.says("GET routes", {"items": [ROUTE]})
    found = json.loads(sokovan("route", "export", "--format", "json")[1])
    assert [one["url"] for one in found["gateways"]] == ["https://10.0.0.3:7648"]
    assert [one["weight"] for one in found["routes"][0]["endpoints"]] == [2]


def test_what_cannot_be_written_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("route", "export")[0] == 2
    assert sokovan("route", "export", "--format", "nginx")[0] == 2
    assert sokovan("route", "export", "--format", "json", "--listen", "127.0.0.1:1")[0] == 2
    assert not server.asked
    server.says("GET gateways", GatewayList(items=[GATEWAY]))
    assert sokovan("route", "export", "--format", "envoy", "--listen", "0.0.0.0:80")[0] == 2


def test_without_a_gateway_it_says_how_to_start_one(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET gateways", GatewayList(items=[]))
    code, out, said = sokovan("route", "export", "--format", "envoy")
    assert (code, out) == (1, "")
    assert "no gateway is known" in said
