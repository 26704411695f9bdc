"""A real engine over two replicas, driven by the official OpenAI client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from sokovan.testing.servers.llama_engine import WIDTH, install, write_model
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

pytestmark = [pytest.mark.server, pytest.mark.slow]

LIMIT_S = 240
NAME = "pair"
REPEATS = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server with one user, who may mount folders; that which tests share may have several."""
    alone = Embedded(tmp_path_factory.mktemp("engines"))
    with ended_well(alone):
        alone.start()
        yield alone


@pytest.fixture(scope="module")
def client(server: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a deployment with two replicas of llama.cpp."""
    from openai import OpenAI  # noqa: PLC0415  # half a second, in each process that collects tests

    programs = tmp_path_factory.mktemp("programs")
    install(programs)
    model = write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")
    options = (
        "--cpus",
        "0.5",
        "--mem",
        "512MiB",
        "--mount",
        f"{programs}:{programs}",
        "--env",
        f"PATH={programs}:/usr/bin",
    )
    engine = ("--json", "--", "--embeddings", "--pooling", "mean")
    done = server.cli("serve", str(model), "--name", NAME, "--replicas", "2", *options, *engine)
    assert done.returncode == 0, done.stderr + server.cli("deployment", "why", NAME).stdout
    told = server.cli_json("token", "create", NAME)
    http = httpx2.Client(trust_env=False, timeout=LIMIT_S)
    url = f"{server.about['gateway']}/v1"
    with OpenAI(base_url=url, api_key=told["token"], http_client=http, max_retries=0) as client:
        yield client
    assert server.cli("deployment", "rm", NAME, "--yes").returncode == 0
    until(lambda: NAME not in server.cli("deployment", "ls").stdout, limit_s=LIMIT_S, what="it is gone")


def served(server: Embedded) -> list[int]:
    """How many requests each replica has answered, as the proxy reported last."""
    return [one["served"] for one in server.cli_json("route", "show", NAME)["endpoints"]]


def settled(server: Embedded, total: int) -> list[int]:
    """The counts once all requests so far are in them."""
    until(lambda: sum(served(server)) >= total, limit_s=LIMIT_S, what="the requests are reported")
    assert sum(served(server)) == total
    return served(server)


def test_chats_streams_and_embeddings_are_answered_by_both_replicas(server: Embedded, client: Any) -> None:
    before = served(server)
    ask: dict[str, Any] = {"model": NAME, "max_tokens": 8, "temperature": 0}
    for number in range(2):
        messages = [{"role": "user", "content": f"{number}: hello"}]
        whole = client.chat.completions.create(messages=messages, **ask)
        assert 1 <= whole.usage.completion_tokens <= 8
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        *parts, last = client.chat.completions.create(messages=messages, **ask, **streaming)
        assert "".join(one.choices[0].delta.content or "" for one in parts) == whole.choices[0].message.content
        assert last.usage.completion_tokens == whole.usage.completion_tokens
        vectors = client.embeddings.create(model=NAME, input=[f"{number}: once", "upon"], encoding_format="float")
        assert [len(one.embedding) for one in vectors.data] == [WIDTH, WIDTH]
        assert vectors.usage.prompt_tokens > 0
    after = settled(server, sum(before) + 6)
    assert all(now > past for now, past in zip(after, before, strict=True)), (before, after)
    assert [one.id for one in client.models.list()] == [NAME]


def test_requests_with_one_prefix_go_to_the_replica_that_has_it_cached(server: Embedded, client: Any) -> None:
    def cached(story: str, turn: int) -> int:
        messages = [{"role": "system", "content": story * 60}, {"role": "user", "content": f"turn {turn}"}]
        answer = client.chat.completions.create(model=NAME, messages=messages, max_tokens=1, temperature=0)
        return int(answer.usage.prompt_tokens_details.cached_tokens)

    homes = []
    for story in ("a long story ", "another tale "):
        before = served(server)
        first, *others = [cached(story, turn) for turn in range(1 + REPEATS)]
        assert min(others) > first, "a replica without the prefix has to read it again"
        assert min(others) >= 500
        after = settled(server, sum(before) + 1 + REPEATS)
        taken = [now - past for now, past in zip(after, before, strict=True)]
        assert sorted(taken) == [0, 1 + REPEATS], "one of them took all"
        homes.append(taken.index(1 + REPEATS))
    assert sorted(homes) == [0, 1], "prompts that have nothing in common are shared out"
