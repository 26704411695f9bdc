"""The toy engine as a process, over a real socket."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, RemoteDisconnected
from typing import Any

import pytest

from sokovan.engines.toy import CRASH_CODE, MODES, read_options
from sokovan.engines.toy_replies import words_of
from sokovan.testing.servers.process import LOOPBACK
from sokovan.testing.servers.toy_engine import ToyEngineServer

pytestmark = pytest.mark.server

CHAT = "/v1/chat/completions"
HELLO = {"model": "toy", "messages": [{"role": "user", "content": "hello"}]}
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[ToyEngineServer]:
    with ToyEngineServer(key="secret") as server:
        yield server


def content(raw: bytes) -> str:
    return str(json.loads(raw)["choices"][0]["message"]["content"])


def events(raw: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_it_answers_a_chat_with_the_same_words_each_time(shared: ToyEngineServer) -> None:
    first, second = shared.post(CHAT, HELLO), shared.post(CHAT, HELLO)
    assert first[0] == second[0] == 200
    assert content(first[1]) == content(second[1]) == "".join(words_of("user: hello", 16))


def test_a_stream_has_a_chunk_per_token_its_usage_and_an_end(shared: ToyEngineServer) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 7}
    _, raw = shared.post(CHAT, {**HELLO, **options})
    *chunks, usage, end = events(raw)
    assert end == "[DONE]"
    assert usage["usage"]["completion_tokens"] == 7
    assert len(chunks) == 8


def test_each_chunk_has_the_usage_so_far_if_it_is_asked_for(shared: ToyEngineServer) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    _, raw = shared.post(CHAT, {**HELLO, "stream": True, "stream_options": options, "max_tokens": 3})
    *chunks, usage, _end = events(raw)
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3, 3]
    assert usage["usage"]["completion_tokens"] == 3


def test_it_counts_the_tokens_that_it_reports(shared: ToyEngineServer) -> None:
    before = shared.metrics()
    _, raw = shared.post(CHAT, {**HELLO, "max_tokens": 11})
    after, usage = shared.metrics(), json.loads(raw)["usage"]
    assert after["toy_completion_tokens_total"] - before["toy_completion_tokens_total"] == 11
    assert after["toy_prompt_tokens_total"] - before["toy_prompt_tokens_total"] == usage["prompt_tokens"]


def test_completions_embeddings_responses_and_models_are_served(shared: ToyEngineServer) -> None:
    assert shared.post("/v1/completions", {"model": "toy", "prompt": "a"})[0] == 200
    assert shared.post("/v1/embeddings", {"model": "toy", "input": "a"})[0] == 200
    assert shared.post("/v1/responses", {"model": "toy", "input": "a"})[0] == 200
    assert json.loads(shared.get("/v1/models")[1])["data"][0]["id"] == "toy"


def test_without_its_key_it_serves_nothing_but_health_and_metrics(shared: ToyEngineServer) -> None:
    stranger = ToyEngineServer(key="wrong")
    stranger.port = shared.port
    assert stranger.post(CHAT, HELLO)[0] == 401
    assert stranger.post("/toy/mode", {"mode": "crash"})[0] == 401
    assert stranger.get("/health")[0] == stranger.get("/metrics")[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (CHAT, {"model": "other", "messages": HELLO["messages"]}, 404),
        (CHAT, {"model": "toy"}, 400),
        (CHAT, {**HELLO, "max_tokens": -1}, 400),
        ("/v1/embeddings", {"model": "toy"}, 400),
        ("/toy/mode", {"mode": "sideways"}, 400),
        ("/v1/images", {}, 404),
    ],
)
def test_a_request_that_it_cannot_serve_gets_an_error(
    shared: ToyEngineServer, path: str, body: dict[str, Any], status: int
) -> None:
    code, raw = shared.post(path, body)
    assert (code, "message" in json.loads(raw)["error"]) == (status, True)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/9\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"POST /v1/x HTTP/1.1\r\ncontent-length: minus\r\n\r\n", b"400"),
        (b"POST /v1/x HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", b"413"),
        (b"POST /v1/x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET /" + b"a" * 70_000, b"413"),
    ],
)
def test_what_is_not_http_ends_the_connection_with_an_error(
    shared: ToyEngineServer, sent: bytes, status: bytes
) -> None:
    with socket.create_connection((LOOPBACK, shared.port), LIMIT_S) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.split(b" ")[1] == status


def test_a_body_in_chunks_is_read_and_the_connection_serves_on(shared: ToyEngineServer) -> None:
    body, headers = json.dumps(HELLO).encode(), {"authorization": "Bearer secret"}
    with connected(shared) as connection:
        for _ in range(2):
            connection.request("POST", CHAT, iter((body[:9], body[9:])), headers, encode_chunked=True)
            assert content(connection.getresponse().read())


def test_it_is_not_healthy_while_it_loads() -> None:
    with ToyEngineServer("--start-seconds", "600") as server:
        assert server.get("/health")[0] == 503
        assert server.post(CHAT, HELLO)[0] == 503


def test_it_fails_on_demand_and_recovers() -> None:
    with ToyEngineServer() as server:
        for mode, status in (("error", 500), ("unavailable", 503), ("unhealthy", 200), ("ok", 200)):
            server.enter(mode)
            assert server.post(CHAT, HELLO)[0] == status
            assert server.get("/health")[0] == (503 if mode == "unhealthy" else 200)


def test_it_answers_some_requests_before_it_fails() -> None:
    with ToyEngineServer("--mode", "error", "--after", "2") as server:
        assert [server.post(CHAT, HELLO)[0] for _ in range(4)] == [200, 200, 500, 500]


def test_a_cut_answer_begins_and_does_not_end() -> None:
    with ToyEngineServer("--mode", "cut") as server, connected(server) as connection:
        connection.request("POST", CHAT, json.dumps({**HELLO, "stream": True}))
        response = connection.getresponse()
        assert response.status == 200
        assert b"[DONE]" not in read_until_cut(response)


@contextmanager
def connected(server: ToyEngineServer) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(LOOPBACK, server.port, timeout=LIMIT_S)
    try:
        yield connection
    finally:
        connection.close()


def read_until_cut(response: Any) -> bytes:
    found = bytearray()
    with response, suppress(OSError, HTTPException):
        while line := response.readline():
            found += line
    return bytes(found)


def test_it_hangs_with_a_good_probe_until_the_client_leaves() -> None:
    with ToyEngineServer("--mode", "hang") as server:
        with socket.create_connection((LOOPBACK, server.port), LIMIT_S) as connection:
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            assert server.get("/health")[0] == 200
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        assert server.running


def test_it_refuses_connections_and_goes_on_running() -> None:
    with ToyEngineServer() as server:
        server.enter("refuse")
        with pytest.raises(ConnectionError):
            server.get("/health")
        assert server.running


def test_it_takes_no_more_requests_at_a_time_than_it_is_told() -> None:
    with ToyEngineServer("--concurrency", "1", "--tokens-per-second", "1") as server:
        connection = HTTPConnection(LOOPBACK, server.port, timeout=LIMIT_S)
        connection.request("POST", CHAT, body=json.dumps({**HELLO, "stream": True}))
        assert connection.getresponse().status == 200
        assert server.post(CHAT, HELLO)[0] == 429
        connection.close()


def test_requests_beyond_its_places_wait_in_its_queue() -> None:
    with ToyEngineServer("--concurrency", "1", "--queue", "1", "--tokens-per-second", "20") as server:
        with connected(server) as first, connected(server) as second:
            for connection in (first, second):
                connection.request("POST", CHAT, body=json.dumps({**HELLO, "stream": connection is first}))
            assert first.getresponse().status == 200
            while server.metrics()["toy_requests_waiting"] != 1:
                pass
            assert server.post(CHAT, HELLO)[0] == 429
            assert server.metrics()["toy_requests_running"] == 1
            first.close()
            assert second.getresponse().status == 200
        assert server.metrics()["toy_requests_waiting"] == 0


def test_it_crashes_on_demand() -> None:
    options = ("--port", "0", "--mode", "crash", "--after", "1")
    with subprocess.Popen(
        [sys.executable, "-m", "sokovan.engines.toy", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        server = ToyEngineServer()
        server.port = int(process.stdout.readline().rpartition(":")[2])
        assert server.post(CHAT, HELLO)[0] == 200
        with pytest.raises((RemoteDisconnected, ConnectionError)):
            server.post(CHAT, HELLO)
        assert process.wait(LIMIT_S) == CRASH_CODE


def test_it_ends_with_the_code_that_it_is_given() -> None:
    ended = subprocess.run([sys.executable, "-m", "sokovan.engines.toy", "--exit-code", "7"], check=False)
    assert ended.returncode == 7


def test_a_stream_that_has_begun_is_completed_after_a_signal_to_end() -> None:
    with ToyEngineServer("--tokens-per-second", "40") as server, connected(server) as connection:
        connection.request("POST", CHAT, json.dumps({**HELLO, "stream": True, "max_tokens": 20}))
        response = connection.getresponse()
        first = response.readline()
        server.stop()
        assert b"[DONE]" in first + response.read()


def test_every_mode_is_an_option() -> None:
    assert {read_options(["--mode", mode]).mode for mode in MODES} == set(MODES)
