"""The names that a server knows, if it says so in time."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event

import pytest

from sokovan.cli.completion.name_cache import NameCache
from sokovan.cli.completion.name_lookup import names_of, within
from sokovan.sdk.errors import InvalidSetting, NotLoggedIn
from tests.unit.cli.canned_server import CannedServer
from tests.unit.sdk.views import pending, session

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sokovan"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer budget, as the machine may be busy with other tests."""
    monkeypatch.setattr("sokovan.cli.completion.name_lookup.BUDGET_S", 30.0)


@pytest.mark.usefixtures("patient")
def test_the_server_is_asked_and_believed_for_a_moment(server: CannedServer) -> None:
    server.says("GET sessions", {"items": [session(name="ddp"), pending(name="tune")]})
    assert names_of("session", "", {}) == [("ddp", "RUNNING"), ("tune", "PENDING")]
    assert names_of("session", "t", {}) == [("tune", "PENDING")]
    assert len(server.asked) == 1


@pytest.mark.usefixtures("patient")
def test_a_name_that_is_not_remembered_is_asked_for_at_once(server: CannedServer) -> None:
    server.says("GET sessions", {"items": [session(name="ddp")]}, {"items": [session(name="new")]})
    names_of("session", "", {})
    assert names_of("session", "n", {}) == [("new", "RUNNING")]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("kind", "query"),
    [("live-session", "terminating&limit"), ("waiting-session", "status=pending&"), ("session", "sessions?limit=100")],
)
def test_only_sessions_that_the_command_can_be_about_are_asked_for(server: CannedServer, kind: str, query: str) -> None:
    server.says("GET sessions", {"items": []})
    assert names_of(kind, "", {}) == []
    assert query in server.lines[0]
    assert "terminated" not in server.lines[0]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("kind", "path"),
    [("queue", "queues"), ("scaling-group", "scaling-groups"), ("quota", "policies"), ("user", "users")],
)
def test_catalogue_objects_are_listed_under_their_plural(server: CannedServer, kind: str, path: str) -> None:
    server.says(f"GET {path}", {"items": []})
    assert names_of(kind, "", {}) == []
    assert [line.partition("?")[0] for line in server.lines] == [f"GET {path}"]


@pytest.mark.usefixtures("patient")
def test_a_name_that_would_break_the_line_is_left_out(server: CannedServer) -> None:
    server.says("GET sessions", {"items": [session(name="a\nb"), session(name="a b"), session(name="ab")]})
    assert [name for name, _ in names_of("session", "a", {})] == ["ab"]


@pytest.mark.usefixtures("server")
def test_without_a_server_stale_names_are_used(cache: Path) -> None:
    assert names_of("session", "", {"url": NOBODY}) == []
    old = NameCache.of(cache, "session", url=NOBODY, token=os.environ["SOKOVAN_TOKEN"])
    old.write([("ddp", "RUNNING")])
    assert names_of("session", "d", {"url": NOBODY}) == [("ddp", "RUNNING")]
    assert names_of("session", "x", {"url": NOBODY}) == []


def test_a_lookup_ends_with_its_budget() -> None:
    never = Event()
    assert within(0.01, lambda: [("late", "")] if never.wait(60) else []) is None
    never.set()


def test_a_failure_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> list[tuple[str, str]]:
        raise OSError("gone")

    assert within(30, broken) is None
    assert capsys.readouterr() == ("", "")


def test_contexts_need_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "sokovan").mkdir()
    (tmp_path / "sokovan" / "config.toml").write_text('[contexts.lab]\nurl = "http://lab"\n', encoding="utf-8")
    assert names_of("context", "l", {}) == [("lab", "http://lab")]
    assert names_of("context", "x", {}) == []


def test_a_missing_api_key_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SOKOVAN_TOKEN", raising=False)
    with pytest.raises(NotLoggedIn):
        names_of("queue", "", {})
    with pytest.raises(InvalidSetting):
        names_of("queue", "", {"context": "none"})
