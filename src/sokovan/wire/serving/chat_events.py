"""Reads answers of engines to a chat: parts of a stream, errors in any form."""

from __future__ import annotations

import json
from typing import Any

MESSAGE_MAX = 2_000
_FIELD, _END = b"data:", b"[DONE]"


class ChatFailed(Exception):
    """The engine ended the answer with an error, which is the text."""


class MalformedChat(Exception):
    """A line of the stream is no part of an answer."""


def text_of(line: bytes) -> str:
    """The text in a line of a stream; empty if it has none.

    Raises ChatFailed, MalformedChat.
    """
    content = line.strip().removeprefix(_FIELD).strip()
    if not line.startswith(_FIELD) or content == _END:
        return ""
    try:
        event = json.loads(content)
        if "error" not in event:
            return "".join(choice.get("delta", {}).get("content") or "" for choice in event.get("choices", ()))
    except (ValueError, TypeError, AttributeError):
        raise MalformedChat from None
    raise ChatFailed(_message(event) or "the answer broke off")


def refusal_of(content: bytes, status: int) -> str:
    """Why a chat was refused, by the body of the response."""
    try:
        message = _message(json.loads(content))
    except ValueError:
        message = ""
    return message or f"the gateway answers with status {status}"


def _message(content: Any) -> str:
    """The message of an error; engines differ in its form."""
    if not isinstance(content, dict):
        return ""
    error = content.get("error", content.get("detail", ""))
    return str(error.get("message", "") if isinstance(error, dict) else error)[:MESSAGE_MAX]
