"""Ports of the machine on a running server: leased, passed to kernels, shown, waited for."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import SplitResult, urlsplit

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.acceptance.embedded import SOKOVAN, Embedded, until
from tests.acceptance.endings import ended_well
from tests.kernel_ports import Rigs, kernel_ports

# Ten ports that no other server of the tests leases.
PORTS = kernel_ports(Rigs.ACCEPTANCE)[50:60]
RANGE = f"{PORTS[0]}-{PORTS[-1]}"

# Binds the port as a service does; a second kernel with the same one would fail.
SERVES = """
import os, socket, time
with socket.create_server(("127.0.0.1", int(os.environ[NAME]))) as door:
    print("serves at", door.getsockname()[1], flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """This machine with ten ports for kernels, and two devices."""
    server = Embedded(tmp_path_factory.mktemp("ports"))
    with ended_well(server):
        server.start("--kernel-ports", RANGE, "--fake-gpus", "2")
        yield server


def serves(server: Embedded, name: str, *options: str, variable: str = "SOKOVAN_PORT_WEB") -> None:
    """Submit a session that serves at the port in a variable, without waiting for it."""
    small = ("--cpus", "0.2", "--mem", "64MiB")
    script = SERVES.replace("NAME", repr(variable))
    done = server.cli("run", "--detach", "--name", name, *small, *options, "--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr


def test_a_port_that_another_program_has_is_not_given_to_a_kernel(machine: Embedded) -> None:
    with socket.create_server(("127.0.0.1", PORTS[0])):
        serves(machine, "other-port", "--port", "web")
        machine.says("other-port", f"serves at {PORTS[1]}")
        assert machine.cli_json("session", "show", "other-port")["kernels"][0]["ports"] == {"web": PORTS[1]}
        history = machine.cli("session", "history", "other-port").stdout
        assert f"port {PORTS[0]} is in use by another program" in history, history
    machine.end("other-port")


def test_two_sessions_with_a_service_run_on_one_machine(machine: Embedded) -> None:
    given = []
    for name in ("first", "second"):
        serves(machine, name, "--port", "web")
        machine.says(name, "serves at")
        port = machine.cli_json("session", "show", name)["kernels"][0]["ports"]["web"]
        machine.says(name, f"serves at {port}")
        assert f"web={port}" in machine.cli("session", "show", name).stdout
        given.append(port)
    assert set(given) <= set(PORTS)
    assert len(set(given)) == 2
    for name in ("first", "second"):
        machine.end(name)


def test_a_session_whose_port_is_taken_waits_and_says_so(machine: Embedded) -> None:
    for name in ("holder", "waiter"):
        serves(machine, name, "--port", "web=8099")
        if name == "holder":
            machine.says(name, "serves at 8099")
    until(lambda: machine.session("waiter")["reason"], what="the scheduler has looked at it")
    why = machine.cli("why", "waiter").stdout
    assert "PORTS_TAKEN" in why, why
    assert "8099" in why, why
    for name in ("holder", "waiter"):
        machine.end(name)


def test_processes_of_two_sessions_with_devices_meet_at_different_ports(machine: Embedded) -> None:
    for name in ("one", "two"):
        serves(machine, name, "--gpus", "1", variable="MASTER_PORT")
    for name in ("one", "two"):
        machine.says(name, "serves at")
    ports = [machine.cli_json("session", "show", name)["kernels"][0]["ports"]["MASTER_PORT"] for name in ("one", "two")]
    assert len(set(ports)) == 2
    for name in ("one", "two"):
        machine.end(name)


def test_the_ports_of_a_machine_are_shown_and_a_wrong_range_is_refused(machine: Embedded) -> None:
    agent = json.loads(machine.cli("agent", "ls", "--json").stdout)[0]
    assert agent["kernel_ports"] == RANGE
    assert RANGE in machine.cli("agent", "show", agent["id"]).stdout
    other = str(machine.folder / "other")
    done = machine.cli("up", "--data", other, "--port", "0", "--kernel-ports", "80-90")
    assert done.returncode == 2
    assert "'80-90' is not a range of ports" in done.stderr
    assert "use FIRST-LAST" in done.stderr


ECHOES = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["SOKOVAN_PORT_WEB"]))) as door:
    print("serves", flush=True)
    while True:
        visitor, _ = door.accept()
        with visitor:
            heard = b""
            while piece := visitor.recv(65536):
                heard += piece
            visitor.sendall(heard.upper())
"""


def test_a_port_of_a_session_is_reached_from_this_machine(machine: Embedded) -> None:
    small = ("--cpus", "0.2", "--mem", "64MiB")
    command = ("--", sys.executable, "-c", ECHOES)
    assert machine.cli("run", "--detach", "--name", "echo", "--port", "web", *small, *command).returncode == 0
    machine.says("echo", "serves")
    forward = subprocess.Popen(
        [SOKOVAN, "port-forward", "echo", "web"],
        env=machine.environment,
        cwd=machine.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert forward.stderr is not None
        host, port = forward.stderr.readline().partition(" -> ")[0].split(":")
        assert forward.stderr.readline() == "Ctrl-C ends it\n"
        for text in (b"once", b"x" * 300_000):
            with socket.create_connection((host, int(port))) as visit:
                visit.sendall(text)
                visit.shutdown(socket.SHUT_WR)
                assert b"".join(iter(partial(visit.recv, 65536), b"")) == text.upper()
    finally:
        forward.send_signal(signal.SIGINT)
        rest = forward.communicate(timeout=60)[1]
    assert (forward.returncode, rest) == (0, "")
    refused = machine.cli("port-forward", "echo", "smtp")
    assert (refused.returncode, "its ports are web" in refused.stderr) == (2, True)
    machine.end("echo")


PAGE = """
import os, socket, threading
def serve(visitor):
    with visitor:
        head = visitor.recv(65536)
        if b"upgrade: websocket" in head.lower():
            visitor.sendall(b"HTTP/1.1 101 OK\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n")
            while piece := visitor.recv(65536):
                visitor.sendall(piece.upper())
        else:
            visitor.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(head), head))
with socket.create_server(("127.0.0.1", int(os.environ["SOKOVAN_PORT_WEB"]))) as listener:
    print("serves", flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


@contextmanager
def opened(machine: Embedded, name: str) -> Iterator[tuple[SplitResult, Callable[..., httpx2.Response]]]:
    """The address that `sokovan open` prints, and a way to ask there as its host."""
    command = subprocess.Popen(
        [SOKOVAN, "open", name],
        env=machine.environment,
        cwd=machine.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert command.stdout is not None
        url = urlsplit(command.stdout.readline().strip())

        def ask(target: str, **fields: str) -> httpx2.Response:
            local, headers = f"http://127.0.0.1:{url.port}{target}", {"host": url.netloc, **fields}
            return httpx2.get(local, headers=headers, trust_env=False, timeout=60)

        yield url, ask
    finally:
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
    assert command.returncode == 0


def test_an_application_of_a_session_is_opened_once_by_its_ticket(machine: Embedded) -> None:
    small = ("--cpus", "0.2", "--mem", "64MiB")
    command = ("--", sys.executable, "-c", PAGE)
    assert machine.cli("run", "--detach", "--name", "page", "--port", "web", *small, *command).returncode == 0
    machine.says("page", "serves")
    with opened(machine, "page") as (url, ask):
        assert url.netloc.startswith("web--")
        ticket = f"{url.path}?{url.query}"
        assert ask("/").status_code == 403
        exchanged = ask(ticket)
        assert exchanged.status_code == 303
        cookie = exchanged.headers["set-cookie"].partition(";")[0]
        assert ask(ticket).status_code == 403, "a ticket is good for one use"
        answer = ask("/tree", cookie=f"theirs=1; {cookie}")
        assert answer.status_code == 200
        assert answer.text.startswith("GET /tree HTTP/1.1\r\n")
        assert "theirs=1" in answer.text
        assert cookie not in answer.text
        assert ask("/", cookie=cookie, origin="http://evil.example").status_code == 403
        with socket.create_connection(("127.0.0.1", url.port)) as visit:
            fields = f"Host: {url.netloc}\r\nCookie: {cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            visit.sendall(f"GET /socket HTTP/1.1\r\n{fields}\r\n".encode())
            assert b" 101 " in visit.recv(65536)
            visit.sendall(b"hello")
            assert visit.recv(65536) == b"HELLO"
        machine.end("page")
        gone = ask("/", cookie=cookie)
        assert gone.status_code == 502
        assert "The application does not answer: " in gone.text


# The paths of code-server, and its rule that a WebSocket comes from a page of the host that was asked.
EDITOR = """
import http, os
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.sync.server import serve
PAGES = {
    "/?folder=/work": ("text/html", b"<script src='stable-1/static/out/vs/workbench.js'></script>"),
    "/stable-1/static/out/vs/workbench.js": ("text/javascript", b"x" * 300_000),
    "/_static/out/browser/serviceWorker.js": ("text/javascript", b"self"),
    "/vscode-remote-resource?path=%2Fwork%2Fa%20b.txt": ("text/plain", b"a b"),
}
def page(_, asked):
    if "upgrade" in asked.headers:
        same = asked.headers.get("origin") == "http://" + asked.headers["host"]
        return None if same else Response(403, "Forbidden", Headers({"Content-Length": "0"}), b"")
    if asked.path == "/":
        return Response(302, "Found", Headers({"Location": "./?folder=/work", "Content-Length": "0"}), b"")
    kind, body = PAGES.get(asked.path, ("text/plain", b""))
    fields = Headers({"Content-Type": kind, "Content-Length": str(len(body)), "Service-Worker-Allowed": "/"})
    return Response(200 if body else 404, "As asked", fields, body)
def echo(socket):
    for message in socket:
        socket.send(message)
with serve(echo, "127.0.0.1", int(os.environ["SOKOVAN_PORT_WEB"]), process_request=page) as server:
    print("serves", flush=True)
    server.serve_forever()
"""


def test_an_editor_with_the_paths_and_sockets_of_code_server_is_opened(machine: Embedded) -> None:
    small = ("--cpus", "0.2", "--mem", "64MiB")
    command = ("--", sys.executable, "-c", EDITOR)
    assert machine.cli("run", "--detach", "--name", "editor", "--port", "web", *small, *command).returncode == 0
    machine.says("editor", "serves")
    with opened(machine, "editor") as (url, ask):
        cookie = ask(f"{url.path}?{url.query}").headers["set-cookie"].partition(";")[0]
        assert ask("/", cookie=cookie).headers["location"] == "./?folder=/work", "it stays on its own origin"
        assert "stable-1/static" in ask("/?folder=/work", cookie=cookie).text
        assert len(ask("/stable-1/static/out/vs/workbench.js", cookie=cookie).content) == 300_000
        worker = ask("/_static/out/browser/serviceWorker.js", cookie=cookie)
        assert (worker.status_code, worker.headers["service-worker-allowed"]) == (200, "/")
        assert ask("/vscode-remote-resource?path=%2Fwork%2Fa%20b.txt", cookie=cookie).text == "a b"
        address, origin = f"ws://{url.netloc}/stable-1?reconnectionToken=1", f"http://{url.netloc}"
        path = partial(socket.create_connection, ("127.0.0.1", url.port or 0))
        fields = {"Cookie": cookie}
        with connect(address, sock=path(), origin=Origin(origin), additional_headers=fields, proxy=None) as editor:
            for message in ("hello", b"\0" * 200_000):
                editor.send(message)
                assert editor.recv(timeout=60) == message
            assert editor.protocol.extensions, "messages are compressed, as between browsers and code-server"
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, sock=path(), origin=Origin("http://evil.example"), additional_headers=fields, proxy=None)
    machine.end("editor")
