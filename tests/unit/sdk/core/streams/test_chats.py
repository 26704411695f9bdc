"""The follower of a chat."""

from __future__ import annotations

import json

import pytest

from sokovan.sdk.core.streams.chats import ChatFollower
from sokovan.sdk.core.streams.server_events import KEEP_ALIVE, ServerEvent
from sokovan.sdk.errors import ServerFailed
from sokovan.wire.api.deployments import ChatBody, ChatMessage

ASKED = ChatBody(messages=[ChatMessage(role="user", content="hello")], model="toy")


def part(text: str, *, end: bool = False) -> ServerEvent:
    return ServerEvent("part", json.dumps({"text": text, "end": end}))


def test_the_parts_of_an_answer_are_given_until_its_end() -> None:
    follower = ChatFollower("toy", ASKED)
    assert follower.call().path == "/api/v1/deployments/toy/chat"
    assert [follower.accept(one) for one in (part("he"), KEEP_ALIVE, part("llo"))] == ["he", None, "llo"]
    assert not follower.is_over()
    assert follower.accept(part("", end=True)) is None
    assert follower.is_over()


def test_a_problem_in_the_stream_is_raised() -> None:
    problem = {"type": "", "title": "T", "status": 503, "detail": "no replica", "code": "no-endpoint"}
    with pytest.raises(ServerFailed, match="no replica"):
        ChatFollower("toy", ASKED).accept(ServerEvent("problem", json.dumps(problem)))
