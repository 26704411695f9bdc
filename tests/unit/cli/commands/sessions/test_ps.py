"""`sokovan ps`: the list of sessions."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from sokovan.api.routes.parameters import SessionSorting
from sokovan.cli.commands.sessions.ps import Sorting
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import ARRAY, ended, pending, session

ALIVE = "pending%2Cscheduled%2Cpreparing%2Cpulling%2Cprepared%2Ccreating%2Crunning%2Cterminating"


@pytest.fixture(autouse=True)
def no_arrays(server: CannedServer) -> None:
    server.says("GET arrays", {"items": []})


def test_sessions_are_sorted_by_all_that_the_api_sorts_by() -> None:
    assert list(get_args(Sorting)) == [one.value for one in SessionSorting]


def of_sessions(server: CannedServer) -> list[str]:
    """The requests for sessions outside of arrays."""
    return [line.replace("&outside_arrays=true", "") for line in server.lines if line.startswith("GET sessions")]


def change(name: str) -> tuple[str, object]:
    """An event about a session."""
    event = {"object": "session", "id": name, "before": None, "after": "x", "trigger": "t", "at": ""}
    return "change", event


def test_sessions_that_have_not_ended_are_listed(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session(), pending(name="tune-9", reason="QUOTA_GROUP")]})
    status, out, err = sokovan("ps")
    assert (status, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["NAME", "STATE"],
        ["ddp", "RUNNING"],
        ["tune-9", "PENDING"],
    ]
    assert of_sessions(server) == [f"GET sessions?status={ALIVE}&limit=100"]
    assert server.lines[1] == f"GET arrays?status={ALIVE}&limit=100"


@pytest.mark.slow
def test_session_retention_are_listed_on_request(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": []})
    sokovan("ps", "--all", "--mine", "--queue", "q", "--user", "u", "--group", "g", "--limit", "5")
    sokovan("session", "ls", "--status", "RUNNING,cancelled")
    sokovan("ps", "--status", "ended")
    sokovan("ps", "--all", "--reason", "QUOTA_USER")
    sokovan("ps", "--all", "--search", "ada train", "--sort", "oldest")
    assert of_sessions(server) == [
        "GET sessions?queue=q&user=u&group=g&mine=true&limit=6",
        "GET sessions?status=running%2Ccancelled&limit=100",
        "GET sessions?status=cancelled%2Cterminated&limit=100",
        "GET sessions?reason=QUOTA_USER&limit=100",
        "GET sessions?q=ada+train&sort=oldest&limit=100",
    ]


def test_sessions_are_sorted_either_way_without_folding_arrays(server: CannedServer, sokovan: Sokovan) -> None:
    items = [session(id=f"s-{number}") for number in range(3)]
    server.says("GET sessions", {"items": items})
    for words in (["--sort", "-gpus"], ["--sort=-gpus"]):
        status, _, err = sokovan("ps", "--all", "--limit", "2", *words)
        assert (status, err) == (0, "the first 2 sessions are listed, and there are more; --no-limit lists all\n")
    assert server.lines == ["GET sessions?sort=-gpus&limit=3"] * 2
    assert sokovan("ps", "--sort", "colour")[0] == 2


def test_arrays_are_searched_as_sessions_are(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": []})
    assert sokovan("ps", "--all", "--search", "sweep", "--sort", "newest")[0] == 0
    assert server.lines == [
        "GET sessions?q=sweep&outside_arrays=true&sort=newest&limit=100",
        "GET arrays?q=sweep&limit=100",
    ]


def test_sessions_are_counted_by_a_property(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions/counts", {"by": "queue", "items": [{"value": "default", "count": 12}]})
    status, out, _ = sokovan("ps", "--all", "--mine", "--count-by", "queue")
    assert (status, out.split()) == (0, ["QUEUE", "SESSIONS", "default", "12"])
    assert server.lines == ["GET sessions/counts?mine=true&by=queue"]
    assert sokovan("ps", "--count-by", "queue", "--watch")[0] == 2


def test_sessions_are_listed_by_their_ids_ended_or_not_and_in_arrays(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session()]})
    assert sokovan("ps", "--id", "s-1", "--id", "s-2")[0] == 0
    assert server.lines == ["GET sessions?id=s-1%2Cs-2&limit=100"]


def test_a_list_is_filtered_by_labels(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session(labels={"team": "vision", "nightly": ""})]})
    status, out, _ = sokovan("ps", "--all", "-l", "team=vision", "--label", "nightly", "--json")
    assert (status, json.loads(out)[0]["labels"]) == (0, {"team": "vision", "nightly": ""})
    assert of_sessions(server) == ["GET sessions?label=team%3Dvision%2Cnightly&limit=100"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "name", "csv"])
def test_a_list_that_is_cut_says_so_and_how_to_see_more(server: CannedServer, sokovan: Sokovan, form: str) -> None:
    server.says("GET sessions", {"items": [session(name=f"s{number}") for number in range(3)], "next": "c"})
    status, out, err = sokovan("ps", "--limit", "2", "-o", form)
    assert (status, "s1" in out, "s2" in out) == (0, True, False)
    assert err == "the newest 2 sessions are listed, and there are more; --no-limit lists all\n"


def test_a_list_without_limit_reads_every_page(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session(name="s1")], "next": None})
    assert sokovan("ps", "--no-limit", "-o", "name") == (0, "s1\n", "")
    assert of_sessions(server) == [f"GET sessions?status={ALIVE}&limit=100"]


@pytest.mark.slow
def test_an_empty_list_is_an_empty_list(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": []})
    assert sokovan("ps", "--json") == (0, "[]\n", "")
    assert sokovan("ps", "-o", "name") == (0, "", "")


@pytest.mark.parametrize("words", [("--status", "WALKING"), ("--limit", "0"), ("-o", "xml"), ("--columns", "colour")])
def test_invalid_filters_are_a_usage_error(server: CannedServer, sokovan: Sokovan, words: tuple[str, ...]) -> None:
    server.says("GET sessions", {"items": []})
    status, out, err = sokovan("ps", *words)
    assert (status, out) == (2, "")
    assert "hint:" in err


@pytest.mark.slow
def test_watching_until_a_state_prints_a_line_for_every_change(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [pending(id="s-1"), session(id="s-2", name="old")]})
    server.streams("GET events", ("resync", {}), change("s-9"), change("s-1"), change("s-1"))
    server.says("GET sessions/s-1", pending(id="s-1"), pending(id="s-1", status="creating"), session(id="s-1"))
    status, out, _ = sokovan("ps", "--until", "RUNNING")
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()[3:]] == [["ddp", "CREATING"], ["ddp", "RUNNING"]]


def test_watched_objects_come_line_by_line(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session(id="s-1")]})
    server.streams("GET events", ("resync", {}), change("s-1"))
    server.says("GET sessions/s-1", session(id="s-1"), ended())
    status, out, _ = sokovan("ps", "--until", "ended", "--json")
    assert status == 0
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["running", "terminated"]


@pytest.mark.parametrize(
    ("words", "lines"),
    [(("-o", "name"), ["ddp", "ddp"]), (("-o", "csv", "--columns", "state"), ["state", "RUNNING", "TERMINATED"])],
)
def test_a_watched_list_keeps_its_form(
    server: CannedServer, sokovan: Sokovan, words: tuple[str, ...], lines: list[str]
) -> None:
    server.says("GET sessions", {"items": [session(id="s-1")]})
    server.streams("GET events", ("resync", {}), change("s-1"))
    server.says("GET sessions/s-1", session(id="s-1"), ended())
    assert sokovan("ps", "--until", "ended", *words)[1].splitlines() == lines


def test_watching_ends_at_once_if_all_reached_the_state(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session()]})
    assert sokovan("ps", "--until", "RUNNING")[0] == 0
    assert len(server.asked) == 1


def test_an_empty_label_is_rejected(sokovan: Sokovan) -> None:
    status, _, errors = sokovan("ps", "-l", "")
    assert (status, "--label is empty" in errors) == (2, True)


@pytest.mark.slow
def test_an_array_is_one_line_with_its_counts(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session(submitted_at="2031-01-01T00:00:00.000Z")]})
    server.says("GET arrays", {"items": [ARRAY]})
    status, out, _ = sokovan("ps", "-o", "wide")
    assert status == 0
    _, first, second = out.splitlines()
    assert first.startswith("ddp")
    assert second.split()[:2] == ["sweep", "RUNNING"]
    assert "2/10" in second
    assert second.endswith("array 0-9%2: 5 pending, 2 running, 2 succeeded, 1 failed")
    assert [one["name"] for one in json.loads(sokovan("ps", "--json")[1])] == ["ddp", "sweep"]
    assert sokovan("ps", "--limit", "1", "-o", "name")[1] == "ddp\n"


def test_the_sessions_of_an_array_are_listed_by_its_name(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [session(name="sweep[1]"), ended(name="sweep[0]")]})
    assert sokovan("ps", "--array", "sweep", "-o", "name")[1] == "sweep[1]\nsweep[0]\n"
    assert server.lines == ["GET sessions?array=sweep&limit=100"]


def test_a_name_selects_sessions_of_exactly_this_name_and_no_arrays(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET sessions", {"items": [ended(name="ddp")]})
    status, out, _ = sokovan("ps", "--status", "ENDED", "--name", "ddp")
    assert (status, out.splitlines()[1].split()[0]) == (0, "ddp")
    assert server.lines == ["GET sessions?status=cancelled%2Cterminated&name=ddp&limit=100"]
