"""The stored form of the spec of a session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from functools import lru_cache
from threading import Lock
from typing import Any, get_type_hints

import msgspec

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import KernelId
from sokovan.domain.plain_values import InvalidDocument
from sokovan.domain.session import KernelSpec, SessionSpec
from sokovan.domain.slots import ResourceSlot


def _mapping(value: Any) -> dict[str, Any]:
    """Encodes ResourceSlot and other mappings that are not a dict."""
    return dict(value.items())


def decode_slots(_kind: type, value: Any) -> ResourceSlot:
    """Decode slots, the only field of a spec that is neither JSON nor a dataclass."""
    return ResourceSlot(value)


# Decoding the spec dominates reading a session; `domain.plain_values` took seven times as long.
SPEC_ENCODER = msgspec.json.Encoder(enc_hook=_mapping)
_SPEC_DECODER = msgspec.json.Decoder(SessionSpec, dec_hook=decode_slots)


def spec_text(spec: SessionSpec) -> str:
    """The stored form of a spec."""
    return SPEC_ENCODER.encode(spec).decode()


def remember_spec(text: str, spec: SessionSpec) -> None:
    """Keep a spec that is stored as this text, if it is large: it is read soon."""
    if len(text) > SMALL_TEXT:
        _LARGE.put(text, spec)


def spec_of(text: str) -> SessionSpec:
    """Decode a stored spec; cached, because sessions are read many times."""
    return _decoded_cached(text) if len(text) <= SMALL_TEXT else _LARGE.get(text)


def _decoded(text: str) -> SessionSpec:
    try:
        return _SPEC_DECODER.decode(text)
    except (msgspec.MsgspecError, SokovanError) as error:
        raise InvalidDocument(key="session", problem=getattr(error, "message", str(error))) from error


def _decoded_large(text: str) -> SessionSpec:
    """Decode the spec of a session with many kernels; those that differ in their ids only are checked once."""
    try:
        stored: Any = _STORED_DECODER.decode(text)
        kernels = tuple(_kernels_of(stored.kernels))
        return SessionSpec(**{**{name: getattr(stored, name) for name in stored.__struct_fields__}, "kernels": kernels})
    except (msgspec.MsgspecError, SokovanError, KeyError):
        return _decoded(text)  # says what is wrong


def _kernels_of(stored: Iterable[dict[str, Any]]) -> Iterator[KernelSpec]:
    first: KernelSpec | None = None
    known: dict[str, Any] = {}
    for one in stored:
        kernel_id = KernelId(one.pop("kernel_id"))
        if first is None or one != known:
            known = one
            first = msgspec.convert({**one, "kernel_id": kernel_id}, KernelSpec, dec_hook=decode_slots)
            yield first
        else:
            yield first.with_id(kernel_id)


def _stored_fields() -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    """The fields of a spec, with its kernels as they are stored."""
    hints = {**get_type_hints(SessionSpec), "kernels": list[dict[str, Any]]}
    for one in fields(SessionSpec):
        if one.default is not MISSING:
            yield one.name, hints[one.name], one.default
        elif one.default_factory is not MISSING:
            yield one.name, hints[one.name], msgspec.field(default_factory=one.default_factory)
        else:
            yield one.name, hints[one.name]


_STORED_DECODER = msgspec.json.Decoder(
    msgspec.defstruct("StoredSpec", list(_stored_fields()), kw_only=True), dec_hook=decode_slots
)
# The characters of a spec that is decoded in less than a millisecond.
SMALL_TEXT = 4_096
_decoded_cached = lru_cache(maxsize=4_096)(_decoded)
# Large specs take much memory; the few of sessions that change now are read again and again.
LARGE_KEPT_MAX = 8


class LargeSpecs:
    """The last few large specs, by their texts; threads share them."""

    def __init__(self, most: int = LARGE_KEPT_MAX) -> None:
        self._most = most
        self._lock = Lock()
        self._known: OrderedDict[str, SessionSpec] = OrderedDict()

    def get(self, text: str) -> SessionSpec:
        """The spec of a text. Raises InvalidDocument."""
        with self._lock:
            known = self._known.get(text)
        found = _decoded_large(text) if known is None else known
        self.put(text, found)
        return found

    def put(self, text: str, spec: SessionSpec) -> None:
        """Remember a spec, and forget the one that was used least recently."""
        with self._lock:
            self._known[text] = spec
            self._known.move_to_end(text)
            while len(self._known) > self._most:
                self._known.popitem(last=False)


_LARGE = LargeSpecs()
