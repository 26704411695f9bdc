"""A real engine on a GPU, asked directly and through the gateway: `python -m benchmarks.gpu_serving`.

It makes a small language model with random weights, serves it by `sokovan serve --engine
transformers --gpus 1`, and sends the same streams to the engine's own port and to the gateway,
in turns. It needs a GPU, and PyTorch and Transformers with its part `serving` in the
environment of `sokovan`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.embedded_server import SOKOVAN, Server, clock, milliseconds, percentile, server
from benchmarks.serving_load import remove
from sokovan.sdk.sync.client import Client

NAME = "gpu"
LAYERS, WIDTH = 16, 1024
PROMPT = "the quick brown fox jumps over the lazy dog " * 8
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to the engine: the address of its API, its name of the model, a key."""

    url: str
    model: str
    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One stream: seconds to its first text and to its end, and its tokens."""

    first_s: float
    whole_s: float
    tokens: int
    finish: str


def write_model(folder: Path) -> int:
    """A Llama with random weights and a tokenizer of its own; the number of its weights."""
    # These packages are no dependency of the project: the machine with the GPU has them.
    tk, torch, tf = (import_module(name) for name in ("tokenizers", "torch", "transformers"))
    words = tk.Tokenizer(tk.models.BPE())
    words.pre_tokenizer = tk.pre_tokenizers.ByteLevel()
    words.decoder = tk.decoders.ByteLevel()
    alphabet = tk.pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator([PROMPT], tk.trainers.BpeTrainer(vocab_size=1024, initial_alphabet=alphabet))
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=words, chat_template=TEMPLATE)
    tokenizer.save_pretrained(folder)
    config = tf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=WIDTH * 3,
        num_hidden_layers=LAYERS,
        num_attention_heads=16,
        num_key_value_heads=8,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = tf.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    return sum(one.numel() for one in model.parameters())


def serve(started: Server, model: Path) -> tuple[Way, Way, float]:
    """Serve the model; the way to the engine, that through the gateway, and how long it took."""
    begun = clock()
    command = [
        *SOKOVAN, "serve", str(model), "--name", NAME, "--engine", "transformers", "--gpus", "1", "--mem", "32GiB",
        "--cpus", "4", "--mount", f"{model}:{model}", "--concurrency", "64", "--timeout", "300s", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, env=started.environment, capture_output=True, text=True, check=False)
    if done.returncode:
        subprocess.run([*SOKOVAN, "deployment", "why", NAME], env=started.environment, check=False)
        subprocess.run([*SOKOVAN, "deployment", "events", NAME], env=started.environment, check=False)
        raise RuntimeError(f"the deployment does not serve: {done.stderr}")
    ready = clock() - begun
    told: dict[str, Any] = json.loads(done.stdout)
    port = next(one.port for one in Client(started.url, started.token).deployments.get(NAME).replicas)
    return (
        Way(f"http://127.0.0.1:{port}/v1", str(model), "none"),
        Way(told["url"], told["model"], told["key"]),
        ready,
    )


async def ask(client: httpx2.AsyncClient, way: Way, tokens: int) -> Answer:
    """One stream of so many tokens."""
    body = {
        "model": way.model,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"authorization": f"Bearer {way.key}"}
    begun, first, used, finish = clock(), 0.0, 0, ""
    async with client.stream("POST", f"{way.url}/chat/completions", json=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            choice: dict[str, Any] = next(iter(event.get("choices", ())), {})
            finish = choice.get("finish_reason") or finish
            if not first and choice.get("delta", {}).get("content"):
                first = clock() - begun
            used = (event.get("usage") or {}).get("completion_tokens", used)
    return Answer(first, clock() - begun, used, finish)


async def streams(way: Way, at_once: int, count: int, tokens: int) -> dict[str, Any]:
    """So many streams, some of them at once."""
    limits = httpx2.Limits(max_connections=at_once)
    async with httpx2.AsyncClient(timeout=300, limits=limits, trust_env=False) as client:
        turns = asyncio.Semaphore(at_once)

        async def one() -> Answer:
            async with turns:
                return await ask(client, way, tokens)

        begun = clock()
        answers = await asyncio.gather(*(one() for _ in range(count)))
        passed = clock() - begun
    return {
        "tokens_per_s": round(sum(one.tokens for one in answers) / passed, 1),
        "first_p50_ms": milliseconds(statistics.median(one.first_s for one in answers)),
        "first_p99_ms": milliseconds(percentile([one.first_s for one in answers], 99)),
        "whole_p50_ms": milliseconds(statistics.median(one.whole_s for one in answers)),
        "short": sum(one.tokens < tokens or one.finish != "length" for one in answers),
    }


def main() -> int:
    """Serve, measure both ways in turns, and print the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu_serving", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--streams", type=int, default=64, help="streams of each measurement")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sokovan-model-") as folder, server() as started:
        weights = write_model(Path(folder))
        direct, through, ready = serve(started, Path(folder))
        print(json.dumps({"weights": weights, "serves_after_s": round(ready, 1)}), flush=True)
        asyncio.run(streams(direct, 16, 16, chosen.tokens))
        ways = [("direct", direct), ("gateway", through)]
        for turn in range(chosen.turns):
            for at_once in (1, 16):
                count = chosen.streams if at_once > 1 else max(4, chosen.streams // 8)
                for name, way in ways if turn % 2 == 0 else reversed(ways):
                    found = asyncio.run(streams(way, at_once, count, chosen.tokens))
                    print(json.dumps({"turn": turn, "at_once": at_once, "way": name, **found}), flush=True)
        for words in (["deployment", "show", NAME], ["agent", "devices"], ["audit"]):
            subprocess.run([*SOKOVAN, *words], env=started.environment, check=False)
        # An engine outlives its server: wait until it has ended.
        remove(Client(started.url, started.token), NAME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
