"""A malicious user on a running server, from the first request to what is left behind.

Mallory has a key like any other user and tries, in this order, the API, the folders of the
machine, and everything that a kernel can reach. Nothing of others is seen, changed or held
up, and the server has not failed.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from tests.acceptance.embedded import SMALL, Embedded, until
from tests.kernels import needs_root, needs_sandbox

IDLE_SOCKETS = 3000
VALUE = "known-to-the-victim-alone"


class Person:
    """A user of a domain of their own, who calls the API with an own key."""

    def __init__(self, server: Embedded, name: str) -> None:
        self.server, self.name = server, name
        for path, body in (
            (f"domains/{name}-inc", {"name": f"{name}-inc"}),
            (f"groups/{name}-lab", {"name": f"{name}-lab", "domain": f"{name}-inc"}),
            (f"users/{name}", {"name": name, "domain": f"{name}-inc", "groups": [f"{name}-lab"]}),
        ):
            assert server.api("PUT", f"/{path}", json=body).is_success
        key = server.api("POST", "/keys", json={"user": name})
        self.token = str(key.json()["token"])

    def call(self, method: str, path: str, *, address: str = "127.0.0.1", **options: Any) -> httpx2.Response:
        transport = httpx2.HTTPTransport(local_address=address)
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        with httpx2.Client(transport=transport, base_url=self.server.about["url"], timeout=60) as client:
            return client.request(method, f"/api/v1{path}", headers=headers, **options)

    def submit(self, *command: str, **body: Any) -> str:
        """The id of a small session."""
        answer = self.call("POST", "/sessions", json={"command": list(command), "resources": SMALL, **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


@pytest.fixture(scope="module")
def mallory(server: Embedded) -> Person:
    """The malicious user."""
    return Person(server, "mallory")


@pytest.fixture(scope="module")
def victim(server: Embedded) -> Person:
    """Another tenant's user."""
    return Person(server, "victim")


@pytest.fixture(scope="module")
def held(victim: Person) -> str:
    """A session of the victim that waits, with a variable."""
    return victim.submit("true", name="quiet", gates=["mine"], environment={"KEY": VALUE})


# With the API


def test_sessions_of_others_can_be_neither_seen_nor_changed(mallory: Person, held: str) -> None:
    for method, path in (
        ("GET", f"/sessions/{held}"),
        ("GET", f"/sessions/{held}/why"),
        ("GET", f"/sessions/{held}/history"),
        ("GET", f"/sessions/{held}/logs"),
        ("GET", f"/sessions/{held}/events"),
        ("DELETE", f"/sessions/{held}"),
        ("POST", f"/sessions/{held}/release"),
    ):
        assert mallory.call(method, path, json={} if method == "POST" else None).status_code == 404, path
    listed = mallory.call("GET", "/sessions", params={"user": "victim"}).text + mallory.call("GET", "/sessions").text
    assert held not in listed
    assert "quiet" not in listed


def test_rights_cannot_be_taken(mallory: Person) -> None:
    own = {"name": "mallory", "domain": "mallory-inc", "groups": ["mallory-lab"], "role": "admin"}
    assert mallory.call("PUT", "/users/mallory", json=own).status_code == 403
    assert mallory.call("POST", "/keys", json={"user": "victim"}).status_code == 404
    assert mallory.call("POST", "/keys", json={"user": "admin"}).status_code == 404
    assert mallory.call("PUT", "/policies/free", json={"name": "free"}).status_code == 403
    roots = {"name": "default", "mount_roots": ["/home"]}
    assert mallory.call("PUT", "/scaling-groups/default", json=roots).status_code == 403
    body = {"command": ["true"], "resources": SMALL, "group": "victim-lab"}
    assert mallory.call("POST", "/sessions", json=body).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"command":["' + b"\\" * 200_000,
        b'"' + b'\\"' * 20_000 + b"[" * 4_000,
        b"x" * ((1 << 20) + 1),
        b'{"command":["true"],"environment":{"A":"' + b"y" * 500_000 + b'"}}',
        b'{"command":["true"],"workdir":"../../../etc"}',
        b"\xff\xfe\x00",
    ],
)
def test_bad_bodies_are_refused_soon_and_are_no_failure_of_the_server(mallory: Person, body: bytes) -> None:
    answer = mallory.call("POST", "/sessions", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert json.loads(answer.text)["code"] != "internal"


def test_paths_lead_nowhere_else(mallory: Person) -> None:
    for path in ("/sessions/..%2f..%2fetc%2fpasswd", "/sessions/%00", "/images/..%2f..", "/users/..", "/metrics"):
        assert mallory.call("GET", path).status_code in {401, 403, 404}, path


@pytest.fixture
def idle_sockets(server: Embedded) -> Iterator[None]:
    """Thousands of connections that say nothing, or half a request."""
    host, port = str(server.about["url"]).removeprefix("http://").split(":")
    with ExitStack() as stack:
        for number in range(IDLE_SOCKETS):
            idle = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            if number % 2:
                idle.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        yield


@pytest.mark.usefixtures("idle_sockets")
def test_idle_connections_keep_nobody_out(victim: Person, server: Embedded) -> None:
    assert victim.call("GET", "/whoami", address="127.0.0.2").status_code == 200
    assert victim.call("GET", "/whoami").status_code == 200
    assert server.cli("ps").returncode == 0
    assert "connections are at their limit" in (server.data / "logs" / "sokovan.log").read_text(encoding="utf-8")


# With folders of the machine


@pytest.mark.parametrize("folder", ["/etc", "/var/run", "/root/.ssh", "/home/victim", "/", "/proc/1/root", "DATA"])
def test_folders_of_the_machine_are_refused_and_nothing_is_stored(
    mallory: Person, server: Embedded, folder: str
) -> None:
    folder = folder.replace("DATA", str(server.data))
    before = len(mallory.call("GET", "/sessions").json()["items"])
    for named in ({"workdir": folder}, {"mounts": [{"source": folder, "target": "/data"}]}):
        answer = mallory.call("POST", "/sessions", json={"command": ["ls"], "resources": SMALL, **named})
        assert (answer.status_code, answer.json()["code"]) == (422, "folder-refused")
    assert len(mallory.call("GET", "/sessions").json()["items"]) == before


# From a kernel

# Searches everything that it can read for the given folders, and everything it was given for secrets.
LOOKS = """
import json, os, sys, urllib.request, urllib.error
api, link, *folders = sys.argv[1:]
found = [os.path.join(place, name) for folder in folders for place, _, names in os.walk(folder) for name in names
         if not place.startswith(os.getcwd())]
processes = [name for name in os.listdir("/proc") if name.isdigit()]
variables = [name for process in processes
             for name in open(f"/proc/{process}/environ").read().split("\\0") if "KEY" in name or "TOKEN" in name]
def answer(address):
    try:
        return urllib.request.urlopen(address, timeout=120).status
    except urllib.error.HTTPError as error:
        return error.code
answers = {"api": answer(api + "/api/v1/sessions"), "link": answer(link)}
answers |= {"processes": len(processes), "number": os.getuid()}
print(json.dumps({"files": found, "variables": variables, **answers}))
"""


@pytest.fixture(scope="module")
def seen(server: Embedded, mallory: Person, victim: Person) -> dict[str, Any]:
    """The findings of a kernel of mallory while one of the victim runs on the same machine."""
    keeps = "import os, time; print(os.getuid(), flush=True); open('secret', 'w').write('x'); time.sleep(600)"
    other = victim.submit("python", "-c", keeps, environment={"KEY": VALUE})
    server.reaches(other, "running")
    link = str(server.about["links"]).replace("ws://", "http://")
    folders = [str(server.data), str(server.folder / "config")]
    session = mallory.submit("python", "-c", LOOKS, str(server.about["url"]), link, *folders)
    server.reaches(session, "terminated", "cancelled")
    found: dict[str, Any] = json.loads(server.cli("logs", session).stdout.splitlines()[-1])
    found["number of the victim"] = int(server.cli("logs", other).stdout.split()[0])
    server.end(other, forced=True)
    return found


@needs_sandbox
def test_a_kernel_sees_nothing_of_the_server_and_of_others(seen: dict[str, Any]) -> None:
    assert seen["files"] == []
    assert seen["variables"] == []
    assert seen["processes"] <= 3


@needs_sandbox
def test_a_kernel_reaches_neither_the_api_nor_the_link_of_agents_without_a_key(seen: dict[str, Any]) -> None:
    assert seen["api"] == 401
    assert seen["link"] in {401, 403, 404, 426}


@needs_root
@needs_sandbox
def test_a_kernel_of_an_agent_that_is_root_has_an_account_of_its_user(seen: dict[str, Any]) -> None:
    assert os.getuid() not in {seen["number"], seen["number of the victim"]}
    assert seen["number"] != seen["number of the victim"]


@needs_sandbox
def test_the_agent_says_what_isolates_its_kernels(server: Embedded) -> None:
    [agent] = json.loads(server.cli("agent", "ls", "--json").stdout)
    shown = json.loads(server.cli("agent", "show", agent["id"], "--json").stdout)
    assert shown["labels"]["sokovan.isolation"] == "sandbox"
    assert (shown["labels"]["sokovan.accounts"] == "none") is (os.getuid() != 0)
    assert "sandbox by bubblewrap" in server.said


# Afterwards


def test_the_server_has_not_failed_and_what_was_tried_is_on_record(server: Embedded, held: str) -> None:
    headers = {"Authorization": f"Bearer {(server.data / 'token').read_text(encoding='ascii').strip()}"}
    answers: list[httpx2.Response] = []
    with httpx2.Client(base_url=server.about["url"], headers=headers, timeout=60) as client:

        def is_ready() -> bool:
            answers.append(client.get("/readyz"))
            return answers[-1].status_code == 200

        assert "sokovan_api_failures_total 0.0" in client.get("/metrics").text
        # What was tried is heavy work, after which a part may be late for a moment.
        until(is_ready, what="the server is ready", tell=lambda: answers[-1].text)
    assert server.session(held)["status"] == "pending"
    assert VALUE not in server.api("GET", f"/sessions/{held}").text
    server.end(held)
