"""A real engine, llama.cpp, and the toy engine, both driven by the official OpenAI client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from sokovan.proxy.control.engine_samples import sample
from sokovan.testing.servers.llama_engine import LlamaServer, write_model
from sokovan.testing.servers.process import LOOPBACK
from sokovan.testing.servers.toy_engine import ToyEngineServer
from sokovan.wire.serving.route_table import EndpointEntry, ProbeTerms
from tests.unit.proxy.running_proxy import LIMIT_S, call, proxy_with, route_of, table_of

pytestmark = pytest.mark.server

KEY = "secret-of-the-replica"
# Of 200.
READ_BEFORE_LEAVING = 10
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    model = write_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    with LlamaServer("--metrics", model=model, key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def toy() -> Iterator[ToyEngineServer]:
    with ToyEngineServer(key=KEY) as server:
        yield server


@pytest.fixture(params=["llama", "toy"])
def engine(request: pytest.FixtureRequest) -> tuple[Any, str]:
    """A client of an engine, and the name of its model."""
    server = request.getfixturevalue(request.param)
    name = server.name if isinstance(server, LlamaServer) else server.model
    return client_of(server.url), name


def client_of(url: str) -> Any:
    from openai import OpenAI  # noqa: PLC0415  # half a second, in each process that collects tests

    return OpenAI(base_url=url, api_key=KEY, max_retries=0)


def test_a_chat_is_answered_with_its_usage(engine: tuple[Any, str]) -> None:
    client, model = engine
    answer = client.chat.completions.create(model=model, messages=HELLO, max_tokens=8, temperature=0)
    assert answer.choices[0].message.content is not None
    assert 1 <= answer.usage.completion_tokens <= 8


def test_a_streamed_chat_ends_with_its_usage(engine: tuple[Any, str]) -> None:
    client, model = engine
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(model=model, messages=HELLO, max_tokens=8, temperature=0, **options))
    assert chunks[-1].usage.completion_tokens <= 8
    assert any(chunk.choices and chunk.choices[0].delta.content is not None for chunk in chunks)


def test_a_completion_is_the_same_each_time(engine: tuple[Any, str]) -> None:
    client, model = engine
    ask = {"model": model, "prompt": "once upon", "max_tokens": 8, "temperature": 0}
    first, second = client.completions.create(**ask), client.completions.create(**ask)
    assert first.choices[0].text == second.choices[0].text


def test_a_long_prompt_is_cached_for_the_next_request(engine: tuple[Any, str]) -> None:
    client, model = engine
    messages = [{"role": "user", "content": "a long story " * 100}]
    ask = {"model": model, "messages": messages, "max_tokens": 1, "temperature": 0}
    _, answer = client.chat.completions.create(**ask), client.chat.completions.create(**ask)
    assert answer.usage.prompt_tokens_details.cached_tokens > 0


def test_a_wrong_key_is_refused(engine: tuple[Any, str]) -> None:
    from openai import AuthenticationError  # noqa: PLC0415  # half a second, in each process that collects tests

    client, model = engine
    stranger = client.with_options(api_key="wrong")
    with pytest.raises(AuthenticationError):
        stranger.chat.completions.create(model=model, messages=HELLO, max_tokens=1)


def test_the_model_is_listed_by_its_served_name(engine: tuple[Any, str]) -> None:
    client, model = engine
    assert [one.id for one in client.models.list()] == [model]


@pytest.mark.parametrize("name", ["llama", "toy"])
async def test_its_metrics_tell_how_many_requests_it_has(name: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(name)
    probe = ProbeTerms(metrics_path="/metrics")
    entry = EndpointEntry("k.1", 1, LOOPBACK, server.port, "ACTIVE", secret=KEY, probe=probe)
    assert await sample(entry) == (0, 0)


def test_the_toy_engine_answers_embeddings_and_responses(toy: ToyEngineServer) -> None:
    client = client_of(toy.url)
    vectors = client.embeddings.create(model=toy.model, input=["a", "b"], dimensions=4)
    assert [len(one.embedding) for one in vectors.data] == [4, 4]
    whole = client.responses.create(model=toy.model, input="hello", max_output_tokens=5)
    with client.responses.stream(model=toy.model, input="hello", max_output_tokens=5) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text
    assert whole.usage is not None
    assert whole.usage.output_tokens == 5


async def test_a_client_that_leaves_llama_cpp_early_is_counted_as_the_engine_counts(llama: LlamaServer) -> None:
    entry = EndpointEntry(
        "k1.1", 1, LOOPBACK, llama.port, "ACTIVE", KEY, llama.name, probe=ProbeTerms(interval_ms=60_000),
        event_usage="timings",
    )  # fmt: skip
    body = {"model": "chat", "messages": HELLO, "stream": True, "max_tokens": 200, "temperature": 0, "ignore_eos": True}
    async with proxy_with(table_of(route_of(entry))) as proxy:
        before = counted(llama)
        reader, writer = await proxy.connect()
        writer.write(call(body=json.dumps(body).encode()))
        async with asyncio.timeout(LIMIT_S):
            seen = [await reader.readuntil(b"data: {") for _ in range(READ_BEFORE_LEAVING)]
        writer.transport.abort()
        await proxy.until(lambda: not proxy.context.exchanges and not proxy.context.leaving)
        proxy.context.ledger.close()
        [usage] = proxy.context.ledger.unsent()
        # The engine counts a request when it has noticed that its client left, or has made all tokens.
        await proxy.until(lambda: counted(llama) - before >= usage.output_tokens)

        assert b"timings" not in b"".join(seen), "what the proxy asked for is removed"
        assert usage.estimated_requests == 0
        assert usage.input_tokens > 0
        # The first line has a role and no token, and of the last only the beginning was read.
        assert usage.output_tokens >= READ_BEFORE_LEAVING - 2


def counted(llama: LlamaServer) -> int:
    """The tokens that the engine says it has predicted."""
    text = httpx2.get(f"http://{LOOPBACK}:{llama.port}/metrics", headers={"authorization": f"Bearer {KEY}"}).text
    [line] = [one for one in text.splitlines() if one.startswith("llamacpp:tokens_predicted_total ")]
    return int(float(line.split()[1]))
