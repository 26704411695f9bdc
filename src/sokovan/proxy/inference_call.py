"""The body of an inference call: the parts that are read or rewritten."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sokovan.proxy.accounts.key_limits import TOKENS_DEFAULT
from sokovan.proxy.accounts.token_counts import CHARACTERS_PER_TOKEN
from sokovan.proxy.http.error_bodies import ProxyRefusal
from sokovan.proxy.routing.prefixes import prefix_chain
from sokovan.wire.serving.route_table import EventUsage

_NOTHING, _TRUE = msgspec.Raw(), msgspec.Raw(b"true")


class _Body(msgspec.Struct):
    model: str
    stream: bool | None = None
    stream_options: dict[str, msgspec.Raw] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    messages: msgspec.Raw = _NOTHING
    prompt: msgspec.Raw = _NOTHING
    input: msgspec.Raw = _NOTHING
    n: msgspec.Raw = _NOTHING
    timings_per_token: msgspec.Raw = _NOTHING


_bodies = msgspec.json.Decoder(_Body)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()

# Paths whose streams take `stream_options`; others report usage by themselves.
_WITH_OPTIONS = frozenset({b"/v1/chat/completions", b"/v1/completions"})
_ONE_CHOICE = frozenset({b"", b"1", b"null"})
INFERENCE_PATHS = _WITH_OPTIONS | {b"/v1/embeddings", b"/v1/responses"}


class InferenceCall(NamedTuple):
    """An inference call; `adds_usage`: the proxy asks for the usage of its stream.

    `may_add_event_usage`: it may ask for the usage of each event too. The client has not, and
    there is one choice: with several, an engine counts each for itself. `tokens_max` is about
    the most that it may use: its prompt, and the output it allows.
    """

    model: str
    streams: bool
    adds_usage: bool
    tokens_max: int
    chain: tuple[int, ...]
    may_add_event_usage: bool = False


def read_call(path: bytes, body: bytes) -> InferenceCall | ProxyRefusal:
    """The call in a body, or why it is none."""
    try:
        found = _bodies.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        missing = "missing required field `model`" in str(problem)
        text = "the body has no model" if missing else f"the body is not a call of this API: {str(problem)[:300]}"
        return ProxyRefusal(400, "invalid-body", text, param="model" if missing else None)
    streams = bool(found.stream)
    asked = found.max_completion_tokens or found.max_tokens or found.max_output_tokens
    prompt = found.messages or found.prompt or found.input
    takes_options = streams and path in _WITH_OPTIONS
    return InferenceCall(
        model=found.model[:1024],
        streams=streams,
        adds_usage=takes_options and not _asks(found.stream_options, "include_usage"),
        tokens_max=max(1, min(asked or TOKENS_DEFAULT, 1 << 30)) + len(body) // CHARACTERS_PER_TOKEN,
        chain=prefix_chain(bytes(prompt)),
        may_add_event_usage=takes_options and _is_single(found),
    )


def _is_single(found: _Body) -> bool:
    """Whether there is one choice, and the client does not ask for the usage of events."""
    several = bytes(found.n) not in _ONE_CHOICE or bytes(found.prompt)[:1] == b"["
    asks = _asks(found.stream_options, "continuous_usage_stats") or bytes(found.timings_per_token) == b"true"
    return not several and not asks


def _asks(options: dict[str, msgspec.Raw] | None, name: str) -> bool:
    return options is not None and bytes(options.get(name, b"")) == b"true"


def body_for(call: InferenceCall, body: bytes, upstream_model: str, event_usage: EventUsage = "") -> bytes:
    """The body that the engine gets: with its own name of the model, and with usage.

    That of each event is asked for as the engine understands it.
    """
    added = event_usage if call.may_add_event_usage else ""
    if not call.adds_usage and not added and (not upstream_model or upstream_model == call.model):
        return body
    members = _members.decode(body)
    members["model"] = msgspec.Raw(_encoder.encode(upstream_model or call.model))
    if added == "timings":
        members["timings_per_token"] = _TRUE
    if call.adds_usage or added == "usage":
        given = members.get("stream_options", _NOTHING)
        options = _members.decode(given) if given and bytes(given) != b"null" else {}
        options["include_usage"] = _TRUE
        if added == "usage":
            options["continuous_usage_stats"] = _TRUE
        members["stream_options"] = msgspec.Raw(_encoder.encode(options))
    return _encoder.encode(members)
