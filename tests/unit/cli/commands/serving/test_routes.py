"""`sokovan route`."""

from __future__ import annotations

from dataclasses import replace

from sokovan.wire.api.routes import RouteShareView
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.wire.api.test_routes import ROUTE


def test_routes_are_listed_and_shown_with_their_endpoints(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET routes", {"items": [ROUTE]})
    server.says("GET deployments/qwen/route", ROUTE)
    assert sokovan("route", "ls")[1].splitlines()[1].split() == ["qwen", "RUNNING", "1", "prefix", "private", "qwen"]
    out = sokovan("route", "show", "qwen")[1]
    assert "version 0, used by 0 of 0 proxies" in out
    assert out.splitlines()[-1].split() == ["0", "1", "ACTIVE", "yes", "2", "a1:20001", "0", "0", "0"]


def test_a_weight_is_set_beside_those_that_were(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen/route", ROUTE)
    server.says("POST deployments/qwen/route", ROUTE)
    later = "no replica 1 serves now; its weight counts once it does"
    assert sokovan("route", "set", "qwen", "--weight", "1=3") == (0, "", f"the route of qwen is set\n{later}\n")
    assert sokovan("route", "set", "qwen", "--weight", "0=2") == (0, "", "the route of qwen is set\n")
    assert [body for _, body in server.asked if body] == [{"weights": {"0": 2, "1": 3}}, {"weights": {"0": 2}}]
    assert sokovan("route", "set", "qwen", "--model-name", "a", "--model-name", "b")[0] == 0
    assert server.asked[-1][1] == {"model_names": ["a", "b"]}


def test_the_share_of_a_canary_is_set_and_given_back(server: CannedServer, sokovan: Sokovan) -> None:
    canary = [RouteShareView(revision=1, weight=700), RouteShareView(revision=2, weight=300)]
    server.says("GET deployments/qwen/route", replace(ROUTE, shares={"2": 30}, revisions=canary))
    server.says("POST deployments/qwen/route", ROUTE)
    assert sokovan("route", "set", "qwen", "--share", "2=50")[0] == 0
    assert server.body("POST deployments/qwen/route") == {"shares": {"2": 50}}
    assert sokovan("route", "set", "qwen", "--share", "2=auto")[0] == 0
    assert server.asked[-1][1] == {"shares": {}}
    assert "1: 70 %, 2: 30 % (set to 30 %)" in sokovan("route", "show", "qwen")[1]
    assert sokovan("route", "set", "qwen", "--share", "2=half")[0] == 2


def test_what_is_no_weight_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("route", "set", "qwen")[0] == 2
    assert sokovan("route", "set", "qwen", "--weight", "3")[0] == 2
    assert sokovan("route", "set", "qwen", "--weight", "0=much")[0] == 2
    assert not server.asked


def test_a_replica_whose_answers_fail_is_seen_in_the_list_and_in_its_note(
    server: CannedServer, sokovan: Sokovan
) -> None:
    bad = replace(ROUTE.endpoints[0], error="reset", answers=20, failures=18, failing=True, ejected=1)
    server.says("GET routes", {"items": [replace(ROUTE, endpoints=[bad])]})
    server.says("GET deployments/qwen/route", replace(ROUTE, endpoints=[bad]))
    assert "1 (1 failing)" in sokovan("route", "ls")[1]
    note = "reset; 18 of the last 20 answers failed; gets no requests for a while"
    assert sokovan("route", "show", "qwen")[1].splitlines()[-1].endswith(note)
