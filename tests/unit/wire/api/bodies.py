"""The base of request bodies."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pytest
from pydantic import TypeAdapter, ValidationError

from sokovan.wire.plain_codec import read_plain

T = TypeVar("T")


def read_by_both(kind: type[T], document: dict[str, Any]) -> T:
    """The value that server and client read, which must be the same."""
    by_server = TypeAdapter(kind).validate_python(document)
    by_client = msgspec.convert(document, kind)
    assert by_server == by_client
    assert by_client == read_plain(msgspec.json.encode(document), kind)  # as the command line reads it
    return by_server


def written(value: object) -> Any:
    """The JSON that an answer is written as, read back plainly."""
    return msgspec.json.decode(msgspec.json.encode(value))


def refused(kind: type[Any], document: dict[str, Any]) -> str:
    """What the server says about a body that it does not take."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(document)
    return str(caught.value)
