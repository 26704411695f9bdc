"""Encodes and decodes the messages of proxies as JSON, with one error type."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sokovan.wire.link_codec import QUOTED_MAX
from sokovan.wire.serving.key_questions import KeyAnswer, KeyQuestion
from sokovan.wire.serving.proxy_reports import ProxyReport, ReportAnswer
from sokovan.wire.serving.route_table import TableUpdate

UPDATE_BYTES_MAX = 256 << 20
REPORT_BYTES_MAX = 16 << 20
ANSWER_BYTES_MAX = 4 << 20
QUESTION_BYTES_MAX = 1 << 10

M = TypeVar("M")

_encoder = msgspec.json.Encoder()
_updates = msgspec.json.Decoder(TableUpdate)
_reports = msgspec.json.Decoder(ProxyReport)
_answers = msgspec.json.Decoder(ReportAnswer)
_questions = msgspec.json.Decoder(KeyQuestion)
_keys = msgspec.json.Decoder(KeyAnswer)


class MalformedMessage(Exception):
    """Bytes that are not a message between manager and proxy, or too many of them."""

    code = "malformed-message"
    hint = "compare the versions of manager and proxy"


def encode(message: TableUpdate | ProxyReport | ReportAnswer | KeyQuestion | KeyAnswer) -> bytes:
    """The JSON text of a message."""
    return _encoder.encode(message)


def decode_update(content: bytes) -> TableUpdate:
    """The table or delta in a JSON text. Raises MalformedMessage only."""
    return _decoded(_updates, content, UPDATE_BYTES_MAX)


def decode_report(content: bytes) -> ProxyReport:
    """The report in a JSON text. Raises MalformedMessage only."""
    return _decoded(_reports, content, REPORT_BYTES_MAX)


def decode_answer(content: bytes) -> ReportAnswer:
    """The answer in a JSON text. Raises MalformedMessage only."""
    return _decoded(_answers, content, ANSWER_BYTES_MAX)


def decode_question(content: bytes) -> KeyQuestion:
    """The question in a JSON text. Raises MalformedMessage only."""
    return _decoded(_questions, content, QUESTION_BYTES_MAX)


def decode_key(content: bytes) -> KeyAnswer:
    """The answer about a key in a JSON text. Raises MalformedMessage only."""
    return _decoded(_keys, content, ANSWER_BYTES_MAX)


def _decoded(decoder: msgspec.json.Decoder[M], content: bytes, bytes_max: int) -> M:
    if len(content) > bytes_max:
        raise MalformedMessage(f"a message has {len(content)} bytes, the limit is {bytes_max}")
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise MalformedMessage(f"not a message of this release: {str(problem)[:QUOTED_MAX]}") from None
    except RecursionError:
        raise MalformedMessage("not a message of this release: nested too deep") from None
