"""The toy engine: answers like an OpenAI-compatible engine, without any model.

    python -m sokovan.engines.toy --port 8000 --model toy

It serves chat, completions, embeddings and responses, streamed or not, with usage,
metrics and a key. Failures are made on demand, by options or by `POST /toy/mode`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sokovan.engines.toy_connection import HEAD_MAX, MalformedRequest, ToyConnection, ToyRequest
from sokovan.engines.toy_replies import (
    Answer,
    PrefixCache,
    UnreadableRequest,
    count_of,
    embeddings,
    prompt_of,
    refusal,
    streamed,
    tokens_in,
    whole,
    words_of,
)

KEY_VARIABLE = "TOY_API_KEY"
GENERATING = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses"})
EMBEDDING = "/v1/embeddings"
# ok: answers; error: 500; unavailable: 503; hang: accepts and never answers; cut: ends an answer in its middle;
# unhealthy: answers, but its probe fails; refuse: accepts no connection; crash: the process ends.
MODES = ("ok", "error", "unavailable", "hang", "cut", "unhealthy", "refuse", "crash")
CRASH_CODE = 3


@dataclass(frozen=True)
class ToyOptions:
    """The options of the command line."""

    host: str
    port: int
    model: str
    start_s: float
    tokens: int
    tokens_per_s: float
    mode: str
    after: int
    exit_code: int | None
    concurrency: int = 0
    queue: int = 0
    api_key: str = ""


@dataclass
class ToyCounters:
    """Requests and tokens that the engine has served, as its metrics show them."""

    requests: int = 0
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    aborted: int = 0


@dataclass
class ToyEngine:
    """The state of one engine and its answers."""

    options: ToyOptions
    mode: str = "ok"
    is_loaded: bool = False
    counters: ToyCounters = field(default_factory=ToyCounters)
    prefixes: PrefixCache = field(default_factory=PrefixCache)
    connections: set[ToyConnection] = field(default_factory=set)
    server: asyncio.Server | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.places = asyncio.Semaphore(self.options.concurrency or sys.maxsize)

    async def serve(self) -> int:
        """Serve until a signal, and return the exit code."""
        options = self.options
        if options.exit_code is not None:
            return options.exit_code
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ended.set)
        self.idle.set()
        self.server = await asyncio.start_server(self._connected, options.host, options.port, limit=HEAD_MAX)
        port = self.server.sockets[0].getsockname()[1]
        sys.stdout.write(f"toy engine serves {options.model} on {options.host}:{port}\n")
        sys.stdout.flush()
        loop.call_later(options.start_s, self._loaded)
        self._switch()
        await self.ended.wait()
        self.server.close()
        await self.idle.wait()  # answers that have begun are completed
        return 0

    def _loaded(self) -> None:
        self.is_loaded = True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = ToyConnection(reader, writer)
        self.connections.add(connection)
        try:
            while (request := await connection.read()) is not None:
                try:
                    await self._respond(connection, request)
                except UnreadableRequest as error:
                    await connection.answer(400, refusal(str(error), "invalid_request_error"))
                if not request.keeps_alive or self.ended.is_set():
                    break
        except MalformedRequest as error:
            await connection.answer(error.status, refusal(str(error), "invalid_request_error"))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.connections.discard(connection)
            connection.close()

    async def _respond(self, connection: ToyConnection, request: ToyRequest) -> None:
        if request.path == "/health":
            is_well = self.is_loaded and self.mode != "unhealthy"
            await connection.answer(200 if is_well else 503, {"status": "ok" if is_well else self._trouble()})
        elif request.path == "/metrics":
            await connection.answer(200, self._metrics())
        elif self.options.api_key and request.headers.get("authorization") != f"Bearer {self.options.api_key}":
            await connection.answer(401, refusal("the key is not that of this engine", "authentication_error"))
        elif request.path == "/v1/models" and request.method == "GET":
            model = {"id": self.options.model, "object": "model", "created": 0, "owned_by": "toy"}
            await connection.answer(200, {"object": "list", "data": [model]})
        elif request.path == "/toy/mode" and request.method == "POST":
            await self._set_mode(connection, request)
        elif request.path in GENERATING or request.path == EMBEDDING:
            await self._infer(connection, request)
        else:
            await connection.answer(404, refusal(f"there is no {request.path}", "invalid_request_error"))

    def _trouble(self) -> str:
        return "unhealthy" if self.is_loaded else "loading"

    async def _set_mode(self, connection: ToyConnection, request: ToyRequest) -> None:
        mode = _json(request).get("mode")
        if mode not in MODES:
            await connection.answer(400, refusal(f"mode must be one of {', '.join(MODES)}", "invalid_request_error"))
            return
        await connection.answer(200, {"mode": mode})
        self.mode = mode
        self._leave_if_asked()

    def _switch(self) -> None:
        """Enter the mode of the options once enough requests were counted."""
        if self.options.mode != "ok" and self.counters.requests == self.options.after:
            self.mode = self.options.mode
            self._leave_if_asked()

    def _leave_if_asked(self) -> None:
        if self.mode == "crash":
            os._exit(CRASH_CODE)  # as a crash would: no handler runs, no answer is completed
        if self.mode == "refuse":
            if self.server is not None:
                self.server.close()
            for connection in self.connections:
                connection.abort()

    async def _infer(self, connection: ToyConnection, request: ToyRequest) -> None:
        self._switch()
        self.counters.requests += 1
        if request.method != "POST":
            await connection.answer(405, refusal("send a POST", "invalid_request_error"))
        elif not self.is_loaded or self.mode == "unavailable":
            problem = refusal("the engine is not ready", "service_unavailable")
            await connection.answer(503, problem, headers={"retry-after": "1"})
        elif self.mode == "error":
            await connection.answer(500, refusal("failed on demand", "server_error"))
        elif self._is_full():
            await connection.answer(
                429, refusal("the engine is full", "rate_limit_error"), headers={"retry-after": "1"}
            )
        elif self.mode == "hang":
            await connection.gone()
            raise ConnectionResetError
        else:
            await self._answer(connection, request)

    def _is_full(self) -> bool:
        options, counters = self.options, self.counters
        return 0 < options.concurrency <= counters.running and counters.waiting >= options.queue

    async def _answer(self, connection: ToyConnection, request: ToyRequest) -> None:
        """Answer a request once there is a place for it."""
        counters = self.counters
        self.idle.clear()
        counters.waiting += 1
        try:
            try:
                await self.places.acquire()
            finally:
                counters.waiting -= 1
            counters.running += 1
            try:
                await self._reply(connection, request)
            finally:
                counters.running -= 1
                self.places.release()
        finally:
            if not counters.running and not counters.waiting:
                self.idle.set()

    async def _reply(self, connection: ToyConnection, request: ToyRequest) -> None:
        try:
            body = _json(request)
            asked = body.get("model", self.options.model)
            if asked != self.options.model:
                problem = refusal(f"there is no model {asked!r}", "invalid_request_error", "model_not_found")
                await connection.answer(404, problem)
            elif request.path == EMBEDDING:
                vectors, tokens = embeddings(body, self.options.model)
                self.counters.prompt_tokens += tokens
                await connection.answer(200, vectors)
            else:
                await self._generate(connection, request.path, body)
        except ConnectionError:
            self.counters.aborted += 1
            raise

    async def _generate(self, connection: ToyConnection, path: str, body: dict[str, Any]) -> None:
        prompt = prompt_of(path, body)
        answer = Answer(
            number=self.counters.requests,
            created=int(time.time()),
            model=self.options.model,
            words=words_of(prompt, count_of(body, self.options.tokens)),
            prompt_tokens=tokens_in(prompt),
            cached_tokens=self.prefixes.cached_tokens(prompt),
        )
        self.counters.prompt_tokens += answer.prompt_tokens
        if not body.get("stream"):
            await self._pause(len(answer.words))
            self._cut(connection)
            self.counters.completion_tokens += len(answer.words)
            await connection.answer(200, whole(path, answer))
            return
        wants = body.get("stream_options") or {}
        await connection.begin_events()
        wanted = wants if isinstance(wants, dict) else {}
        events = streamed(
            path,
            answer,
            with_usage=bool(wanted.get("include_usage")),
            continuous=bool(wanted.get("include_usage") and wanted.get("continuous_usage_stats")),
        )
        for index, (name, event) in enumerate(events):
            if index < len(answer.words):
                await self._pause(1)
                connection.require_client()
                self.counters.completion_tokens += 1
            if index == len(answer.words) // 2:
                self._cut(connection)
            await connection.event(name, event)
        if path != "/v1/responses":
            await connection.event("", "[DONE]")
        await connection.end_events()

    async def _pause(self, tokens: int) -> None:
        if self.options.tokens_per_s:
            await asyncio.sleep(tokens / self.options.tokens_per_s)

    def _cut(self, connection: ToyConnection) -> None:
        if self.mode == "cut":
            connection.abort()
            raise ConnectionResetError

    def _metrics(self) -> str:
        counters = self.counters
        rows = {
            "toy_requests_total": counters.requests,
            "toy_requests_aborted_total": counters.aborted,
            "toy_prompt_tokens_total": counters.prompt_tokens,
            "toy_completion_tokens_total": counters.completion_tokens,
            "toy_requests_running": counters.running,
            "toy_requests_waiting": counters.waiting,
        }
        kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in rows}
        return "".join(f"# TYPE {name} {kinds[name]}\n{name} {value}\n" for name, value in rows.items())


def _json(request: ToyRequest) -> dict[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise UnreadableRequest("the body is not JSON") from error
    if not isinstance(body, dict):
        raise UnreadableRequest("the body must be an object")
    return body


def read_options(words: Sequence[str]) -> ToyOptions:
    """The options of a command line; the key comes from the environment."""
    parser = argparse.ArgumentParser(prog="toy-engine", description="An OpenAI-compatible engine without a model.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--model", default="toy", help="name of the model")
    parser.add_argument("--start-seconds", type=float, default=0.0, dest="start_s", help="time until it is ready")
    parser.add_argument("--tokens", type=int, default=16, help="tokens of an answer, unless a request says")
    parser.add_argument("--tokens-per-second", type=float, default=0.0, dest="tokens_per_s", help="0: no pause")
    parser.add_argument("--mode", choices=MODES, default="ok", help="how it behaves, at once or --after requests")
    parser.add_argument("--after", type=int, default=0, help="requests that are answered before --mode holds")
    parser.add_argument("--concurrency", type=int, default=0, help="requests at a time, others get 429; 0: any number")
    parser.add_argument("--queue", type=int, default=0, help="requests that wait beyond --concurrency instead")
    parser.add_argument("--exit-code", type=int, default=None, help="end at once with this code")
    return ToyOptions(**vars(parser.parse_args(words)), api_key=os.environ.get(KEY_VARIABLE, ""))


def main(words: Sequence[str] | None = None) -> int:
    """Run the engine and return its exit code."""
    return asyncio.run(ToyEngine(read_options(sys.argv[1:] if words is None else words)).serve())


if __name__ == "__main__":
    sys.exit(main())
