"""Options that many commands share."""

from __future__ import annotations

import json

import pytest

from sokovan.cli.commands.options import OutputOptions, ServerOptions
from sokovan.cli.rendering import OutputFormat
from sokovan.sdk.errors import InvalidSetting, NotLoggedIn
from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_json_is_the_same_as_the_format_of_that_name(server: CannedServer) -> None:
    assert OutputOptions(json=True).format() == OutputOptions(output="json").format() == OutputFormat("json")
    assert OutputOptions(columns="a, B").format() == OutputFormat("table", ("a", "b"))
    assert server.asked == []


def test_the_environment_may_choose_the_format(server: CannedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOKOVAN_FORMAT", "yaml")
    assert OutputOptions().format() == OutputFormat("yaml")
    assert OutputOptions(output="csv").format() == OutputFormat("csv")
    monkeypatch.setenv("SOKOVAN_FORMAT", "xml")
    with pytest.raises(InvalidSetting):
        OutputOptions().format()
    assert server.asked == []


def test_the_client_speaks_to_the_server_that_is_meant(server: CannedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerOptions().client() as client:
        assert client.endpoint.url == server.url
    monkeypatch.delenv("SOKOVAN_TOKEN")
    with pytest.raises(NotLoggedIn):
        ServerOptions().client()


def test_a_problem_of_the_server_is_one_object_for_programs(server: CannedServer, sokovan: Sokovan) -> None:
    fields = [{"where": "query/limit", "problem": "is 0"}]
    server.refuses("GET agents", 422, "invalid-request", request_id="r-1", problems=fields)
    status, out, err = sokovan("agent", "ls", "--json")
    assert (status, out) == (2, "")
    assert json.loads(err) == {
        "code": "invalid-request",
        "message": "about invalid-request",
        "hint": "fix it",
        "status": 422,
        "request_id": "r-1",
        "problems": fields,
    }


def test_a_problem_of_the_server_is_two_lines(server: CannedServer, sokovan: Sokovan) -> None:
    server.refuses("GET agents", 403, "forbidden")
    assert sokovan("agent", "ls") == (5, "", "error: about forbidden\n  hint: fix it [forbidden]\n")
