"""Places for commands and connections at agents."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sokovan.api.errors import StreamsFull
from sokovan.api.streaming.command_limits import CommandLimits
from sokovan.domain.ids import AgentId

FIRST, SECOND = AgentId("a1"), AgentId("a2")


def test_a_user_has_a_limit_at_each_agent_and_takes_no_place_of_others() -> None:
    streams = CommandLimits(most=2)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(streams.taken("ann", FIRST))
        with pytest.raises(StreamsFull, match="ann has 2 commands and connections at agent a1, the limit is 2"):
            stack.enter_context(streams.taken("ann", FIRST))
        stack.enter_context(streams.taken("ann", SECOND))
        stack.enter_context(streams.taken("bob", FIRST))


def test_a_place_is_free_again_when_its_command_ends_or_fails() -> None:
    streams = CommandLimits(most=1)
    with pytest.raises(ValueError, match="broken"), streams.taken("ann", FIRST):
        raise ValueError("broken")
    with streams.taken("ann", FIRST):
        pass
