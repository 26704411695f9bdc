"""Wire objects as JSON and back without a library, compared with msgspec."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import pytest

from sokovan.wire.api.sessions import SessionBody, SessionPage, SessionView
from sokovan.wire.plain_codec import NotPlain, encoded, plain, read_plain
from tests.unit.sdk.views import SESSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """An object in another one."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A field of every kind."""

    text: str
    whole: int = 0
    number: float = 0.0
    truth: bool = False
    perhaps: str | None = None
    amount: int | float | str = 0
    ratio: float | None = None
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list)
    amounts: dict[str, int] = field(default_factory=dict)
    choice: Literal["a", "b"] = "a"
    anything: Any = None


READABLE: list[dict[str, Any]] = [
    {"text": "x"},
    {"text": "é\u2028\n", "whole": -(10**30), "number": 2, "truth": True, "perhaps": None},
    {"text": "", "number": 2.5, "amount": 2, "ratio": 1, "inner": {"name": "n", "later": 1}},
    {"text": "", "amount": 0.5, "ratio": 0.5, "inners": [{"name": "n"}], "amounts": {"gpu": 1}, "choice": "b"},
    {"text": "", "amount": "4GiB", "anything": {"a": [1, None, "x"]}, "from a later version": [1]},
]
UNREADABLE: list[Any] = [
    [], None, "x", {}, {"text": 1}, {"text": None}, {"text": "x", "whole": True}, {"text": "x", "whole": "1"},
    {"text": "x", "whole": None}, {"text": "x", "truth": 1}, {"text": "x", "inner": {}}, {"text": "x", "inner": []},
    {"text": "x", "inners": {}}, {"text": "x", "inners": [None]}, {"text": "x", "amounts": []},
    {"text": "x", "amounts": {"gpu": 0.5}}, {"text": "x", "choice": "c"}, {"text": "x", "number": True},
    {"text": "x", "amount": None},
]  # fmt: skip


@pytest.mark.parametrize("document", READABLE)
def test_a_valid_object_is_read_as_msgspec_reads_it(document: dict[str, Any]) -> None:
    content = json.dumps(document).encode()
    expected = msgspec.json.decode(content, type=Sample)
    found = read_plain(content, Sample)
    assert found == expected
    assert repr(found) == repr(expected)  # 1 and 1.0 are equal


@pytest.mark.parametrize("document", UNREADABLE)
def test_what_msgspec_refuses_is_refused(document: object) -> None:
    content = json.dumps(document).encode()
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(content, type=Sample)
    with pytest.raises(NotPlain):
        read_plain(content, Sample)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b'{"text": "\xff"}', b'{"text": "\\ud800"}', b'{"text": "\\uDC00"}', b'{"text": "x", "number": NaN}',
        b'{"text": "x", "anything": Infinity}', b'{"text": "a\nb"}', b"\xef\xbb\xbf{}", b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(content: bytes) -> None:
    with pytest.raises(NotPlain):
        read_plain(content, Sample)


def test_sessions_are_read_whole() -> None:
    content = msgspec.json.encode(SessionPage(items=[SESSION, SESSION], next="c"))
    assert read_plain(content, SessionPage) == SessionPage(items=[SESSION, SESSION], next="c")
    assert read_plain(content.decode(), SessionPage).items[0] == SESSION


def test_a_mapping_of_anything_is_read() -> None:
    assert read_plain(b'{"exit_code": 3}', dict[str, object]) == {"exit_code": 3}


def test_a_tuple_has_its_length() -> None:
    assert read_plain(b"[1, 2]", tuple[int, int]) == (1, 2)
    with pytest.raises(NotPlain):
        read_plain(b"[1]", tuple[int, int])


def test_a_type_that_is_not_known_is_left_to_msgspec() -> None:
    with pytest.raises(NotPlain):
        read_plain(b"[1, 2]", set[int])
    with pytest.raises(NotPlain):
        read_plain(b"{}", Inner | Sample)


@pytest.mark.parametrize(
    "value", [SESSION, SessionBody(command=["é", "\\"], resources={"gpu": 0.5}), {"a": [Inner(name="x")]}]
)
def test_objects_are_encoded_as_msgspec_encodes_them(value: object) -> None:
    assert json.loads(encoded(value)) == json.loads(msgspec.json.encode(value))
    assert plain(value) == msgspec.to_builtins(value)
    assert "é".encode() in encoded(["é"])


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encoded({"gpu": math.nan})


def test_a_view_keeps_the_defaults_of_fields_that_are_missing() -> None:
    short = {name: value for name, value in plain(SESSION).items() if name != "evictions"}
    assert read_plain(json.dumps(short), SessionView) == SESSION
