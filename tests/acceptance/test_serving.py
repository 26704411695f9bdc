"""The first five minutes with a model: serve, ask, scale, kill, update, roll back, delete."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sokovan.testing.servers.llama_engine import install, write_model
from tests.acceptance.claims import shown_by
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well
from tests.kernel_ports import Rigs, kernel_ports

pytestmark = [pytest.mark.server, pytest.mark.slow]

NAME = "five"
SMALL = ("--cpus", "0.2", "--mem", "128MiB")
LIMIT_S = 240
UPDATED = shown_by(
    "test_a_model_is_served_asked_scaled_killed_updated_and_rolled_back", deployment="running:revision_activated"
)
HELLO = '{"model": "five", "messages": [{"role": "user", "content": "hello"}]}'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Embedded, Mapping[str, Any]]]:
    """A server with a deployment of the toy engine, and what `serve` printed."""
    server = Embedded(tmp_path_factory.mktemp("serving"))
    with ended_well(server):
        server.start()
        try:
            yield server, server.cli_json("serve", "toy", "--name", NAME, "--replicas", "2", *SMALL)
        finally:
            server.cli("deployment", "rm", NAME, "--yes")
            until(lambda: not server.cli_json("deployment", "ls"), limit_s=LIMIT_S, what="the deployment has ended")


def view(server: Embedded) -> Mapping[str, Any]:
    found: Mapping[str, Any] = server.cli_json("deployment", "show", NAME)
    return found


def serves(server: Embedded, replicas: int) -> None:
    until(
        lambda: view(server)["replicas_active"] == replicas,
        limit_s=LIMIT_S,
        what=f"{replicas} replicas serve",
        tell=lambda: f"{view(server)}\n{server.cli('deployment', 'events', NAME).stdout}",
    )


def asked(told: Mapping[str, Any], key: str = "") -> httpx2.Response:
    headers = {"authorization": f"Bearer {key or told['key']}", "content-type": "application/json"}
    return httpx2.post(f"{told['url']}/chat/completions", content=HELLO, headers=headers, timeout=60, trust_env=False)


def words(told: Mapping[str, Any]) -> int:
    """The number of words of an answer, which tells revisions apart."""
    answer = asked(told)
    assert answer.status_code == 200, answer.text
    return len(answer.json()["choices"][0]["message"]["content"].split())


def processes_at(port: int) -> list[int]:
    """The processes of the engine that serves at a port: itself, and those of its sandbox."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"__toy-engine" in arguments and str(port).encode() in arguments:
            found.append(int(folder.name))
    return found


def process_at(port: int) -> int:
    """One of them, whose end is that of the engine."""
    found = processes_at(port)
    assert found, f"no engine serves at {port}"
    return found[0]


def test_a_model_is_served_asked_scaled_killed_updated_and_rolled_back(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, told = served
    assert (told["model"], told["deployment"]["status"]) == (NAME, "running")

    # By curl, by the command line, and not with another key.
    if shutil.which("curl"):
        url, key = f"{told['url']}/chat/completions", f"authorization: Bearer {told['key']}"
        command = ["curl", "--silent", "--noproxy", "*", "-H", key, "-H", "content-type: application/json"]
        done = subprocess.run([*command, "-d", HELLO, url], check=True, capture_output=True, text=True)
        assert '"chat.completion"' in done.stdout
    assert len(server.cli("chat", NAME, "hello").stdout.split()) == 16
    assert asked(told, "ske_wrong").status_code == 401
    # A user's own key is good for the user's deployments, and a new token at once.
    assert asked(told, (server.data / "token").read_text(encoding="ascii").strip()).status_code == 200
    made = server.cli_json("token", "create", NAME)
    assert asked(told, made["token"]).status_code == 200
    assert server.cli("token", "revoke", NAME, made["id"], "--yes").returncode == 0
    until(lambda: asked(told, made["token"]).status_code == 401, limit_s=LIMIT_S, what="the token is refused")

    assert server.cli("deployment", "scale", NAME, "3").returncode == 0
    serves(server, 3)

    # One is killed: the others answer, and another one takes its place.
    os.kill(process_at(view(server)["replicas"][0]["port"]), signal.SIGKILL)
    assert {asked(told).status_code for _ in range(20)} == {200}
    until(lambda: view(server)["replicas_active"] < 3, limit_s=LIMIT_S, what="its end is noticed")
    serves(server, 3)

    assert words(told) == 16
    updated = server.cli("deployment", "update", NAME, "--max-surge", "3", "--", "--tokens", "3")
    assert updated.returncode == 0, updated.stderr
    assert all(line != following for line, following in itertools.pairwise(updated.stderr.splitlines()))
    assert (view(server)["revision"]["number"], words(told)) == (2, 3)
    assert server.cli("deployment", "rollback", NAME).returncode == 0
    assert (view(server)["revision"]["number"], words(told)) == (1, 16)
    UPDATED(server, view(server)["id"])


def test_an_update_to_replicas_that_answer_no_request_is_rolled_back_and_says_why(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, told = served
    before = view(server)["revision"]["number"]
    updated = server.cli("deployment", "update", NAME, "--", "--mode", "error")
    said = "a new replica did not answer requests: a request for one token got status 500"
    assert updated.returncode == 1
    assert f"was rolled back: {said}" in updated.stderr
    assert (view(server)["revision"]["number"], words(told)) == (before, 16)
    assert "failed: a request for one token got status 500" in server.cli("deployment", "why", NAME).stdout
    assert said in server.cli("deployment", "events", NAME).stdout


def test_a_replica_that_passes_its_checks_and_cuts_its_answers_is_replaced(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, told = served
    number = view(server)["replicas_active"]
    headers, root = {"authorization": f"Bearer {told['key']}"}, told["url"].removesuffix("/v1")
    with httpx2.Client(headers=headers, timeout=60, trust_env=False) as client:
        # One of them takes this call, and cuts its answers from now on; its probe succeeds.
        assert client.post(f"{root}/d/{NAME}/toy/mode", json={"mode": "cut"}).json() == {"mode": "cut"}
        prompts = (f"{number}, please" for number in itertools.count())

        def replaced() -> bool:
            for prompt in itertools.islice(prompts, 10):
                body = {"model": NAME, "messages": [{"role": "user", "content": prompt}]}
                answer = client.post(f"{told['url']}/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
            return "answers-fail" in server.cli("deployment", "events", NAME).stdout

        until(replaced, limit_s=LIMIT_S, what="it is replaced", tell=lambda: server.cli("route", "show", NAME).stdout)
    until(
        lambda: (
            [one["after"] for one in server.cli_json("deployment", "events", NAME) if one["code"] == "answers-fail"]
            == ["unhealthy", "draining", "failed"]
        ),
        limit_s=LIMIT_S,
        what="its end is noted",
    )
    serves(server, number)
    assert "answers failed" not in server.cli("deployment", "why", NAME).stdout


def test_the_openai_client_asks_and_streams(served: tuple[Embedded, Mapping[str, Any]]) -> None:
    from openai import OpenAI  # noqa: PLC0415  # half a second, in each process that collects tests

    _, told = served
    ask: dict[str, Any] = {"model": NAME, "messages": [{"role": "user", "content": "hello"}]}
    http = httpx2.Client(trust_env=False, timeout=LIMIT_S)
    with OpenAI(base_url=told["url"], api_key=told["key"], http_client=http) as client:
        whole = client.chat.completions.create(**ask)
        parts = [chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(**ask, stream=True)]
        assert "".join(parts) == whole.choices[0].message.content
        assert [model.id for model in client.models.list()] == [NAME]


def test_an_engine_that_is_full_gets_calls_one_by_one_and_a_client_that_hangs_up_pays(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, _ = served
    arguments = ("--", "--concurrency", "1", "--tokens-per-second", "100")
    told = json.loads(server.cli("serve", "toy", "--name", "narrow", *SMALL, "--json", *arguments).stdout)
    made = server.cli_json("token", "create", "narrow", "--tokens-per-month", "100000")
    headers = {"authorization": f"Bearer {made['token']}"}
    body = {"model": "narrow", "messages": [{"role": "user", "content": "hello"}]}
    url = f"{told['url']}/chat/completions"
    ask = partial(httpx2.post, url, json=body, headers=headers, timeout=LIMIT_S, trust_env=False)
    with ThreadPoolExecutor(8) as threads:
        answers = [one.result() for one in [threads.submit(ask) for _ in range(8)]]
    assert [one.text for one in answers if one.status_code != 200] == []

    def used() -> int:
        [token] = [one for one in server.cli_json("token", "ls", "narrow") if one["id"] == made["id"]]
        return int(token["tokens_used"])

    until(lambda: used() >= 8 * 16, limit_s=LIMIT_S, what="the usage is reported")
    before = used()
    long = {**body, "stream": True, "max_tokens": 50_000}
    with httpx2.stream("POST", url, json=long, headers=headers, timeout=LIMIT_S, trust_env=False) as answer:
        assert next(answer.iter_lines()).startswith("data:")

    def metrics() -> str:
        key = {"authorization": f"Bearer {told['key']}"}
        raw = f"{told['url'].removesuffix('/v1')}/d/narrow/metrics"
        return httpx2.get(raw, headers=key, timeout=LIMIT_S, trust_env=False).text

    until(lambda: "toy_requests_running 0" in metrics(), limit_s=LIMIT_S, what="the replica ends its work")
    assert "toy_requests_aborted_total 1" in metrics()
    until(lambda: used() > before, limit_s=LIMIT_S, what="the tokens of the client that left are counted")
    assert used() < before + 1_000
    assert server.cli("deployment", "rm", "narrow", "--yes").returncode == 0


def test_the_queue_of_an_engine_is_shown_and_starts_another_replica(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, _ = served
    arguments = ("--", "--concurrency", "1", "--queue", "20", "--tokens-per-second", "10")
    told = json.loads(server.cli("serve", "toy", "--name", "deep", *SMALL, "--json", *arguments).stdout)
    bounds = ("1", "--max", "2", "--metric", "queue", "--target", "2")
    assert server.cli("deployment", "scale", "deep", *bounds).returncode == 0
    body = {"model": "deep", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 40}
    headers = {"authorization": f"Bearer {told['key']}"}
    ask = partial(
        httpx2.post, f"{told['url']}/chat/completions", json=body, headers=headers, timeout=LIMIT_S, trust_env=False
    )

    def waiting() -> int:
        return sum(one["waiting"] for one in server.cli_json("route", "show", "deep")["endpoints"])

    def desired() -> int:
        return int(server.cli_json("deployment", "show", "deep")["replicas_desired"])

    with ThreadPoolExecutor(10) as threads:
        answers = [threads.submit(ask) for _ in range(10)]
        # The proxy has room for all of them: only the engine knows that they wait.
        until(lambda: waiting() > 0, limit_s=LIMIT_S, what="the queue of the engine is reported")
        until(lambda: desired() == 2, limit_s=LIMIT_S, what="another replica is wanted")
        assert {one.result().status_code for one in answers} == {200}
    assert server.cli("deployment", "rm", "deep", "--yes").returncode == 0


def test_a_canary_gets_the_share_of_requests_that_its_file_says_or_a_hand_sets(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, shown = served

    def filed(*arguments: str, **rollout: object) -> None:
        body = {
            "apiVersion": "sokovan/v1", "kind": "Deployment", "name": "split", "engine": "toy",
            "arguments": arguments, "resources": {"cpu": 0.2, "mem": "128MiB"}, "rollout": rollout,
        }  # fmt: skip
        done = server.cli("apply", "-f", "-", stdin=json.dumps(body))
        assert done.returncode == 0, done.stderr

    filed("--tokens", "16")
    key = server.cli_json("token", "create", "split")["token"]
    said = json.dumps({"model": "split", "messages": [{"role": "user", "content": "hello"}]})
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    url = f"{shown['url']}/chat/completions"
    ask = partial(httpx2.post, url, content=said, headers=headers, timeout=LIMIT_S, trust_env=False)

    def says(count: int) -> bool:
        answer = ask()
        return answer.status_code == 200 and len(answer.json()["choices"][0]["message"]["content"].split()) == count

    until(partial(says, 16), limit_s=LIMIT_S, what="the first replica serves")
    assert server.cli("route", "set", "split", "--share", "2=100").returncode != 0, "there is no canary"
    for share, count in ((100, 3), (0, 16)):
        filed("--tokens", "3", strategy="canary", share=share)
        until(partial(says, count), limit_s=LIMIT_S, what=f"{share} % go to the new revision by the file")
    for by_hand, count in (("100", 3), ("auto", 16)):
        set_to = server.cli("route", "set", "split", "--share", f"2={by_hand}")
        assert set_to.returncode == 0, set_to.stderr
        until(partial(says, count), limit_s=LIMIT_S, what=f"{by_hand} go to the new revision by hand")
        assert ("(set to 100 %)" in server.cli("route", "show", "split").stdout) == (by_hand == "100")
    assert "100 % of requests to revision 2" in server.cli("deployment", "events", "split").stdout
    assert server.cli("deployment", "rm", "split", "--yes").returncode == 0


def test_a_monthly_budget_is_counted_exactly_and_ends_with_a_time(served: tuple[Embedded, Mapping[str, Any]]) -> None:
    server, told = served
    made = server.cli_json("token", "create", NAME, "--tokens-per-month", "150")
    body = {"model": NAME, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 60}
    headers = {"authorization": f"Bearer {made['token']}"}
    ask = partial(httpx2.post, f"{told['url']}/chat/completions", json=body, headers=headers, timeout=60)
    used, answer = 0, ask(trust_env=False)
    while answer.status_code == 200:
        used += answer.json()["usage"]["total_tokens"]
        assert used <= 150
        answer = ask(trust_env=False)
    assert used > 0
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "token-budget"), answer.text
    assert f"{150 - used} of the key's 150 tokens per month are left" in answer.json()["error"]["message"]
    assert int(answer.headers["retry-after"]) >= 1

    def shown() -> Mapping[str, Any]:
        [token] = [one for one in server.cli_json("token", "ls", NAME) if one["id"] == made["id"]]
        found: Mapping[str, Any] = token
        return found

    until(lambda: shown()["tokens_used"] == used, limit_s=LIMIT_S, what="the usage is reported")
    assert shown()["renewed_at"].endswith("-01T00:00:00.000Z")


SAYS_IT = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = os.environ["TOKEN"].encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""


def test_a_file_with_a_secret_is_applied_and_its_route_is_set(served: tuple[Embedded, Mapping[str, Any]]) -> None:
    server, told = served
    body = {
        "apiVersion": "sokovan/v1", "kind": "Deployment", "name": "filed", "engine": "custom", "image": "host",
        "command": [sys.executable, "-c", SAYS_IT], "secrets": {"TOKEN": "hidden-value"},
        "resources": {"cpu": 0.2, "mem": "64MiB"}, "replicas": 2, "routing": "least-load",
    }  # fmt: skip

    def applied() -> str:
        done = server.cli("apply", "-f", "-", stdin=json.dumps(body))
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "filed created" in applied()
    assert "filed unchanged" in applied()
    until(
        lambda: server.cli_json("deployment", "show", "filed")["replicas_active"] == 2,
        limit_s=LIMIT_S,
        what="both replicas serve",
        tell=lambda: server.cli("deployment", "why", "filed").stdout,
    )
    assert "hidden-value" not in server.cli("deployment", "show", "filed", "--json").stdout
    key = server.cli_json("token", "create", "filed")["token"]
    url = f"{told['url'].removesuffix('/v1')}/d/filed/"
    ask = partial(httpx2.get, url, headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False)
    assert (ask().status_code, ask().text) == (200, "hidden-value")

    # A replica of weight 0 gets nothing; what the file does not say about the route stays.
    assert server.cli("route", "set", "filed", "--weight", "0=0", "--access", "project").returncode == 0

    def weights() -> list[int]:
        return [one["weight"] for one in server.cli_json("route", "show", "filed")["endpoints"]]

    until(lambda: weights() == [0, 1], limit_s=LIMIT_S, what="the weights are in effect")
    assert "filed" in server.cli("route", "ls").stdout

    def used_by_proxies() -> bool:
        route = server.cli_json("route", "show", "filed")
        return bool(route["acknowledged"] == route["proxies"] > 0)

    until(used_by_proxies, limit_s=LIMIT_S, what="the proxy uses them")
    served_before = server.cli_json("route", "show", "filed")["endpoints"][0]["served"]
    assert {ask().status_code for _ in range(10)} == {200}

    def counts() -> list[int]:
        return [one["served"] for one in server.cli_json("route", "show", "filed")["endpoints"]]

    until(lambda: counts()[1] >= 10, limit_s=LIMIT_S, what="the requests are reported")
    assert counts()[0] == served_before
    assert "filed is being deleted" in server.cli("deployment", "rm", "filed", "--yes").stderr
    until(lambda: "filed" not in server.cli("deployment", "ls").stdout, limit_s=LIMIT_S, what="it is gone")


def test_a_real_engine_is_served_from_a_file(
    served: tuple[Embedded, Mapping[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    server, _ = served
    programs, models = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("models")
    install(programs)
    model = write_model(models / "tiny.gguf")
    mounted = ("--mount", f"{programs}:{programs}", "--env", f"PATH={programs}:/usr/bin")
    told = server.cli_json("serve", str(model), "--name", "tiny", "--cpus", "1", "--mem", "1GiB", *mounted)
    long = {"model": "tiny", "messages": [{"role": "user", "content": "a long story " * 60}], "max_tokens": 1}
    headers = {"authorization": f"Bearer {told['key']}"}
    ask = partial(httpx2.post, f"{told['url']}/chat/completions", json=long, headers=headers, timeout=60)
    answers = [ask(trust_env=False), ask(trust_env=False)]
    assert [one.status_code for one in answers] == [200, 200], answers[0].text
    assert answers[1].json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert server.cli("deployment", "rm", "tiny", "--yes").returncode == 0


# An engine that takes its port late, as one that loads a large model does.
LATE = """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the engine")
while True:
    try:
        door = http.server.HTTPServer(("127.0.0.1", {port}), Handler)
        break
    except OSError:
        time.sleep(0.1)
door.serve_forever()
"""


def test_a_program_that_took_the_port_before_the_engine_gets_no_request(
    served: tuple[Embedded, Mapping[str, Any]],
) -> None:
    server, _ = served
    options = ("--name", "late", "--engine", "custom", *SMALL, "--detach", "--json")
    with contextlib.ExitStack() as stack:
        for port in kernel_ports(Rigs.ACCEPTANCE):
            other = taken(port)
            if other is not None:
                stack.enter_context(other)
        told = json.loads(server.cli("serve", "late", *options, "--", sys.executable, "-c", LATE).stdout)
        until(
            lambda: "port-taken" in server.cli("deployment", "events", "late").stdout,
            limit_s=LIMIT_S,
            what="its replica was ended",
            tell=lambda: server.cli("deployment", "why", "late").stdout,
        )
        assert server.cli_json("deployment", "show", "late")["replicas_active"] == 0
    until(
        lambda: server.cli_json("deployment", "show", "late")["replicas_active"] == 1,
        limit_s=LIMIT_S,
        what="another replica serves",
        tell=lambda: server.cli("deployment", "why", "late").stdout,
    )
    url, key = f"{told['url'].removesuffix('/v1')}/d/late/", told["key"]
    answer = httpx2.get(url, headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False)
    assert (answer.status_code, answer.text) == (200, "the engine")
    assert server.cli("deployment", "rm", "late", "--yes").returncode == 0
    until(lambda: "late" not in server.cli("deployment", "ls").stdout, limit_s=LIMIT_S, what="it is gone")


def test_without_its_manager_a_port_that_another_program_took_gets_no_byte(
    served: tuple[Embedded, dict[str, Any]],
) -> None:
    server, told = served
    assert asked(told).status_code == 200
    port = view(server)["replicas"][0]["port"]
    server.kill()
    os.kill(process_at(port), signal.SIGKILL)
    with contextlib.ExitStack() as stack:
        other = until(lambda: taken(port), limit_s=LIMIT_S, what="the port is free")
        stack.enter_context(other)
        assert {asked(told).status_code for _ in range(30)} == {200}
        # It is connected to, at least by a probe, which may come only after all requests were answered.
        received = until(lambda: received_by(other, stack), limit_s=LIMIT_S, what="it was connected to")
    assert set(received) == {b""}
    server.start()
    told["url"] = f"{server.about['gateway']}/v1"
    serves(server, view(server)["replicas_desired"])
    assert asked(told).status_code == 200


def received_by(listener: socket.socket, stack: contextlib.ExitStack) -> list[bytes]:
    """What each connection that waits at a listener sends first."""
    received = []
    with contextlib.suppress(BlockingIOError):
        while True:
            connection, _ = listener.accept()
            stack.enter_context(connection)
            connection.settimeout(LIMIT_S)
            received.append(connection.recv(1024))
    return received


def taken(port: int) -> socket.socket | None:
    """A listener at the port, once it is free."""
    try:
        found = socket.create_server(("127.0.0.1", port))
    except OSError:
        return None
    found.setblocking(False)
    return found
