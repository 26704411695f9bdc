"""Invented answers in the forms of the OpenAI API.

The same prompt gives the same text. Nothing here reads a clock or a socket.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WORDS = (
    "a", "and", "answer", "any", "are", "as", "before", "but", "can", "each", "every", "first", "for", "from", "here",
    "how", "if", "in", "is", "it", "model", "more", "no", "not", "of", "on", "one", "or", "other", "question", "small",
    "so", "some", "than", "that", "the", "then", "there", "this", "to", "token", "two", "was", "we", "what", "when",
    "which", "with", "word", "you",
)  # fmt: skip
TOKENS_MAX = 100_000
# Characters of a block of the prompt, as proxies count them too, and of a token.
BLOCK, TOKEN = 512, 4
CACHED_BLOCKS_MAX = 4_096
DIMENSIONS, DIMENSIONS_MAX = 16, 4_096
INPUTS_MAX = 2_048

Json = dict[str, Any]


class UnreadableRequest(Exception):
    """A body that has not the form of its path."""


@dataclass(frozen=True)
class Answer:
    """One answer: its words, and what the caller pays for."""

    number: int
    created: int
    model: str
    words: tuple[str, ...]
    prompt_tokens: int
    cached_tokens: int

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.words)

    @property
    def usage(self) -> Json:
        """Tokens in the form of chat and completions."""
        return self.usage_of(len(self.words))

    def usage_of(self, words: int) -> Json:
        """The tokens after so many words."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": words,
            "total_tokens": self.prompt_tokens + words,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class PrefixCache:
    """Blocks of earlier prompts, by which answers report cached tokens as engines do."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def cached_tokens(self, prompt: str) -> int:
        """Tokens of `prompt` that an earlier one began with; remembers this one."""
        chain, found, is_known = b"", 0, True
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hashlib.sha256(chain + prompt[start : start + BLOCK].encode(errors="replace")).digest()
            is_known = is_known and chain in self._blocks
            found += is_known
            self._blocks[chain] = None
            self._blocks.move_to_end(chain)
        while len(self._blocks) > CACHED_BLOCKS_MAX:
            self._blocks.popitem(last=False)
        return found * BLOCK // TOKEN


def prompt_of(path: str, body: Json) -> str:
    """The text of a request, by its path. Raises UnreadableRequest."""
    if path == "/v1/chat/completions":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise UnreadableRequest("messages must be a list that is not empty")
        return "\n".join(_message(message) for message in messages)
    field = "input" if path == "/v1/responses" else "prompt"
    given = body.get(field)
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        return "\n".join(part if isinstance(part, str) else _message(part) for part in given)
    raise UnreadableRequest(f"{field} must be a text or a list")


def _message(message: object) -> str:
    if not isinstance(message, dict):
        raise UnreadableRequest("a message must be an object with role and content")
    content = message.get("content", "")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return f"{message.get('role', 'user')}: {content}"


def count_of(body: Json, default: int) -> int:
    """The number of tokens asked for. Raises UnreadableRequest."""
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        asked = body.get(name)
        if asked is not None:
            if not isinstance(asked, int) or isinstance(asked, bool) or not 1 <= asked <= TOKENS_MAX:
                raise UnreadableRequest(f"{name} must be a whole number from 1 to {TOKENS_MAX}")
            return asked
    return default


def words_of(prompt: str, count: int) -> tuple[str, ...]:
    """The words of an answer: they depend on the prompt alone."""
    seed = zlib.crc32(prompt.encode(errors="replace"))
    chosen = (WORDS[zlib.crc32(index.to_bytes(4, "big"), seed) % len(WORDS)] for index in range(count))
    return tuple(word if index == 0 else f" {word}" for index, word in enumerate(chosen))


def tokens_in(prompt: str) -> int:
    """How many tokens a prompt counts for: four characters each."""
    return max(1, -(-len(prompt) // TOKEN))


def whole(path: str, answer: Answer) -> Json:
    """An answer in one piece."""
    if path == "/v1/responses":
        return _response(answer, "completed", [_item(answer, answer.text, "completed")])
    chat = path == "/v1/chat/completions"
    content: Json = {"message": {"role": "assistant", "content": answer.text}} if chat else {"text": answer.text}
    return {
        **_head(path, answer, part=False),
        "choices": [{"index": 0, **content, "logprobs": None, "finish_reason": "stop"}],
        "usage": answer.usage,
    }


def streamed(path: str, answer: Answer, *, with_usage: bool, continuous: bool = False) -> Iterator[tuple[str, Json]]:
    """The events of a streamed answer: a name, which may be empty, and a body each.

    With `continuous` each has the usage so far, as `continuous_usage_stats` of other engines.
    """
    if path == "/v1/responses":
        yield from _response_events(answer)
        return
    chat = path == "/v1/chat/completions"
    head = _head(path, answer, part=True)
    usage: Json = {"usage": None} if with_usage else {}
    for index, word in enumerate(answer.words):
        delta = {"role": "assistant", "content": word} if index == 0 else {"content": word}
        content: Json = {"delta": delta} if chat else {"text": word}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": None}
        if continuous:
            usage = {"usage": answer.usage_of(index + 1)}
        yield "", {**head, "choices": [choice], **usage}
    end: Json = {"delta": {}} if chat else {"text": ""}
    yield "", {**head, "choices": [{"index": 0, **end, "logprobs": None, "finish_reason": "stop"}], **usage}
    if with_usage:
        yield "", {**head, "choices": [], "usage": answer.usage}


def embeddings(body: Json, model: str) -> tuple[Json, int]:
    """A vector per input, and the number of tokens read. Raises UnreadableRequest."""
    given = body.get("input")
    inputs = [given] if isinstance(given, str) else given
    if not isinstance(inputs, list) or not inputs or len(inputs) > INPUTS_MAX:
        raise UnreadableRequest(f"input must be a text or a list of 1 to {INPUTS_MAX} texts")
    dimensions = body.get("dimensions") or DIMENSIONS
    if not isinstance(dimensions, int) or not 1 <= dimensions <= DIMENSIONS_MAX:
        raise UnreadableRequest(f"dimensions must be a whole number from 1 to {DIMENSIONS_MAX}")
    vectors = [_vector(str(text), dimensions) for text in inputs]
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(tokens_in(str(text)) for text in inputs)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}, tokens


def refusal(message: str, kind: str, code: str | None = None) -> Json:
    """An error in the form of the OpenAI API."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _vector(text: str, dimensions: int) -> list[float]:
    seed = zlib.crc32(text.encode(errors="replace"))
    return [zlib.crc32(index.to_bytes(4, "big"), seed) / 2**31 - 1 for index in range(dimensions)]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _head(path: str, answer: Answer, *, part: bool) -> Json:
    chat = path == "/v1/chat/completions"
    kind = ("chat.completion.chunk" if part else "chat.completion") if chat else "text_completion"
    name = f"{'chatcmpl' if chat else 'cmpl'}-toy-{answer.number}"
    return {"id": name, "object": kind, "created": answer.created, "model": answer.model}


def _item(answer: Answer, text: str, status: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}] if status == "completed" else []
    return {
        "id": f"msg-toy-{answer.number}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _response(answer: Answer, status: str, output: list[Json]) -> Json:
    usage = {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": len(answer.words),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + len(answer.words),
    }
    return {
        "id": f"resp-toy-{answer.number}",
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if status == "completed" else None,
    }


def _response_events(answer: Answer) -> Iterator[tuple[str, Json]]:
    place = {"item_id": f"msg-toy-{answer.number}", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    item = _item(answer, answer.text, "completed")
    events: list[Mapping[str, Any]] = [
        {"type": "response.created", "response": _response(answer, "in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": _item(answer, "", "in_progress")},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in answer.words),
        {"type": "response.output_text.done", **place, "text": answer.text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": answer.text}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": _response(answer, "completed", [item])},
    ]
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}
