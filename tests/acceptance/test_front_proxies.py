"""HAProxy before the gateway of `sokovan up`, with the configuration that `route export` writes."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.embedded import LIMIT_S, Embedded, until
from tests.acceptance.test_serving import SMALL
from tests.acceptance.test_serving_states import removed

HAPROXY = shutil.which("haproxy") or ""
pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.skipif(not HAPROXY, reason="needs haproxy; see make packages"),
]


@pytest.fixture(scope="module")
def told(server: Embedded) -> Iterator[Mapping[str, Any]]:
    """What `serve` printed of a deployment."""
    yield server.cli_json("serve", "toy", "--name", "behind", *SMALL)
    removed(server, "behind")


@contextlib.contextmanager
def haproxy(server: Embedded, folder: Path, *options: str) -> Iterator[httpx2.Client]:
    """A client of HAProxy with the configuration that the server exports."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    # A proxy reports within a second after its start.
    until(
        lambda: server.cli("route", "export", "--format", "haproxy").returncode == 0,
        limit_s=LIMIT_S,
        what="the gateway has reported",
    )
    written = server.cli("route", "export", "--format", "haproxy", "--listen", address, *options)
    assert written.returncode == 0, written.stderr
    file = folder / "haproxy.cfg"
    file.write_text(written.stdout, encoding="utf-8")
    process = subprocess.Popen([HAPROXY, "-db", "-f", str(file)])
    try:
        with httpx2.Client(base_url=f"http://{address}", timeout=LIMIT_S, trust_env=False) as client:
            until(lambda: _answers(client), limit_s=LIMIT_S, what="HAProxy listens")
            yield client
    finally:
        process.terminate()
        process.wait(timeout=LIMIT_S)


def _answers(client: httpx2.Client) -> bool:
    with contextlib.suppress(httpx2.TransportError):
        return client.get("/").status_code == 404
    return False


def test_requests_and_streams_go_through_and_nothing_for_the_machine_does(
    server: Embedded, told: Mapping[str, Any], tmp_path: Path
) -> None:
    body = {"model": "behind", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {told['key']}"}
    with haproxy(server, tmp_path) as client:
        answer = client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert client.post("/v1/chat/completions", json=body).status_code == 401
        with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}, headers=headers) as stream:
            lines = [line for line in stream.iter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        assert client.get("/d/behind/v1/models", headers=headers).status_code == 200
        for path in ("/-/metrics", "/-/health", "/v1/../-/metrics", "//-/metrics", "/dx"):
            assert client.get(path).status_code == 404, path


def test_with_a_deployment_only_its_paths_go_through(server: Embedded, told: Mapping[str, Any], tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {told['key']}"}
    with haproxy(server, tmp_path, "--deployment", "behind") as client:
        assert client.get("/d/behind/v1/models", headers=headers).status_code == 200
        assert client.get(f"/d/{told['deployment']['id']}/v1/models", headers=headers).status_code == 200
        assert client.get("/v1/models", headers=headers).status_code == 404
        assert client.get("/d/other/v1/models", headers=headers).status_code == 404


def test_the_export_as_json_has_endpoints_and_no_secret(server: Embedded, told: Mapping[str, Any]) -> None:
    found = server.cli("route", "export", "--format", "json", "--deployment", "behind")
    assert found.returncode == 0, found.stderr
    assert f'"url": "{told["url"].removesuffix("/v1")}"' in found.stdout
    assert '"weight": 1' in found.stdout
    assert "secret" not in found.stdout
    assert "ticket" not in found.stdout
