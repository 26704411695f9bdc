"""`sokovan chat`, with the toy engine in place of a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from sokovan.engines.toy_replies import words_of
from sokovan.testing.servers.toy_engine import ToyEngineServer
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.deployment_views import DEPLOYMENT

pytestmark = pytest.mark.server

KEY = "ske_secret"


@pytest.fixture
def engine(server: CannedServer) -> Iterator[ToyEngineServer]:
    with ToyEngineServer(model="qwen", key=KEY) as running:
        server.says("GET deployments/qwen", replace(DEPLOYMENT, url=running.url))
        server.says("POST deployments/d-1/tokens", {"id": "t-1", "deployment": "d-1", "token": KEY}, status=201)
        server.says("DELETE deployments/d-1/tokens/t-1", None, status=204)
        yield running


def test_the_answer_is_printed_and_the_token_revoked(
    server: CannedServer, sokovan: Sokovan, engine: ToyEngineServer
) -> None:
    answer = "".join(words_of("user: hello there", 5))
    assert sokovan("chat", "qwen", "hello", "there", "--max-tokens", "5") == (0, f"{answer}\n", "")
    assert server.lines[-1] == "DELETE deployments/d-1/tokens/t-1"
    assert server.body("POST deployments/d-1/tokens")["expires_at"].endswith("Z")
    assert engine.running


def test_a_refusal_is_an_error_and_the_token_is_revoked(
    server: CannedServer, sokovan: Sokovan, engine: ToyEngineServer
) -> None:
    for mode, said in (("error", "failed on demand"), ("refuse", "does not answer")):
        engine.enter(mode)
        status, _, err = sokovan("chat", "qwen", "hello")
        assert (status, said in err) == (1, True)
    assert server.lines[-1] == "DELETE deployments/d-1/tokens/t-1"


class Answers(BaseHTTPRequestHandler):
    """Answers every question in the same way."""

    status, content = 200, b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_details: object) -> None:
        pass


ODD_ANSWERS = [
    (200, b'data: {"choices":[{"delta":{"content":"a\\u001b[2J\\u009bb\\tc"}}]}\n\n', "a\ufffd[2J\ufffdb\tc\n"),
    (200, b'data: {"error": "out of memory"}\n\n', "out of memory"),
    (200, b'data: {"error": {"message": "cut"}}\n\n', "cut"),
    (200, b"data: nonsense\n\n", "something else than a part of an answer"),
    (200, b"data: 5\n\n", "something else than a part of an answer"),
    (422, b'{"detail": "unexpected field"}', "unexpected field"),
    (500, b"<html>", "status 500"),
    (500, b"[1]", "status 500"),
]


@pytest.mark.parametrize("odd", ODD_ANSWERS)
def test_whatever_an_engine_answers_is_shown_harmlessly(
    server: CannedServer, sokovan: Sokovan, odd: tuple[int, bytes, str]
) -> None:
    answered, content, shown = odd
    handler = type("Engine", (Answers,), {"status": answered, "content": content})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as engine:
        Thread(target=engine.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{engine.server_address[1]}/v1"
        server.says("GET deployments/qwen", replace(DEPLOYMENT, url=url))
        server.says("POST deployments/d-1/tokens", {"id": "t-1", "deployment": "d-1", "token": KEY}, status=201)
        server.says("DELETE deployments/d-1/tokens/t-1", None, status=204)
        code, out, err = sokovan("chat", "qwen", "hello")
        engine.shutdown()
    assert shown in out + err
    assert code == (0 if shown in out else 1)
    assert "Traceback" not in err


def test_without_a_question_nothing_is_asked(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("chat", "qwen")[0] == 2
    assert server.lines == []


def test_a_server_without_a_gateway_says_so(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET deployments/qwen", replace(DEPLOYMENT, url=""))
    status, _, err = sokovan("chat", "qwen", "hello")
    assert (status, "no gateway" in err) == (1, True)
