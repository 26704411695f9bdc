"""The sync client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import msgspec
import pytest

import sokovan
from sokovan.sdk.errors import InvalidSetting, NotLoggedIn
from sokovan.sdk.machine import machine_mark
from sokovan.sdk.sync.client import Client
from tests.unit.sdk.fake_server import FakeServer, ok, stream
from tests.unit.sdk.views import SESSION


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("SOKOVAN_URL", "SOKOVAN_TOKEN", "SOKOVAN_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


def test_a_run_is_a_submission_and_gives_a_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOKOVAN_QUEUE", "research")
    server = FakeServer(ok(SESSION, status=201))
    with Client("http://127.0.0.1", "sk-1", transport=server.transport()) as client:
        session = client.run("python train.py", gpus=8, size=4, topology="hard:rack", workdir="none")
    assert session.name == "ddp"
    assert server.requests[0].content == (
        b'{"command":["python","train.py"],"resources":{"cuda.device":8},"size":4,"queue":"research","topology":"hard:rack"}'
    )


def test_a_session_that_is_there_has_a_handle_too() -> None:
    client = Client("http://127.0.0.1", "sk-1", transport=FakeServer(ok(SESSION)).transport())
    assert client.session("ddp").id == "s-1"
    assert client.endpoint.url == "http://127.0.0.1"


def test_whoami_health_and_events() -> None:
    me = {"user": "ada", "role": "user", "domain": "d", "groups": [], "access_key": "AK-1"}
    server = FakeServer(ok(me), ok({"status": "ok", "version": "1", "parts": {}}), stream(("resync", {})))
    client = Client("http://127.0.0.1", "sk-1", transport=server.transport())
    assert client.whoami().user == "ada"
    assert client.health().status == "ok"
    assert next(iter(client.events())).trigger == "resync"


def test_without_a_key_nothing_is_sent() -> None:
    with pytest.raises(NotLoggedIn):
        Client("http://127.0.0.1")
    with pytest.raises(InvalidSetting):
        Client("x", "sk-1")


def test_the_key_never_leaves_for_a_redirect() -> None:
    moved = httpx2.Response(307, headers={"Location": "http://evil/"})
    server = FakeServer(moved)
    client = Client("http://127.0.0.1", "sk-1", transport=server.transport())
    with pytest.raises(sokovan.ClientProblem):
        client.whoami()
    assert len(server.requests) == 1


@pytest.mark.slow
def test_the_package_has_the_client_and_loads_it_lazily() -> None:
    assert sokovan.Client is Client
    assert sokovan.SessionHandle.__name__ == "SessionHandle"
    code = (
        "import sys, sokovan; assert not {'httpx2', 'msgspec', 'asyncio'} & set(sys.modules); "
        "sokovan.AsyncClient; assert 'httpx2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError):
        sokovan.Klient  # type: ignore[attr-defined]  # noqa: B018  # the mistake that is tested


def test_a_run_without_a_client_uses_the_current_context() -> None:
    with pytest.raises(NotLoggedIn):
        sokovan.run("x")


def me(machine: str) -> dict[str, object]:
    return {
        "user": "ada",
        "role": "user",
        "domain": "d",
        "groups": [],
        "access_key": "AK-1",
        "machine": machine,
        "folders": ["/"],
    }


def test_a_run_works_in_the_current_folder_where_the_server_sees_it() -> None:
    server = FakeServer(ok(me(machine_mark())), *[ok(SESSION, status=201)] * 3)
    with Client("http://127.0.0.1", "sk-1", transport=server.transport()) as client:
        for options in ({}, {"workdir": "none"}, {"workdir": "sub"}):
            client.run(["true"], **options)  # type: ignore[arg-type]  # options of a run
    bodies = [msgspec.json.decode(request.content) for request in server.requests[1:]]
    assert [body.get("workdir", "") for body in bodies] == [str(Path.cwd()), "", str(Path.cwd() / "sub")]


def test_a_run_names_no_folder_to_a_server_elsewhere() -> None:
    server = FakeServer(ok(me("another")), ok(SESSION, status=201))
    with Client("http://127.0.0.1", "sk-1", transport=server.transport()) as client:
        client.run(["true"])
    assert "workdir" not in msgspec.json.decode(server.requests[1].content)
