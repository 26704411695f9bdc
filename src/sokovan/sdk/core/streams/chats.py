"""The follower of a chat; most programs load no types of deployments."""

from __future__ import annotations

from sokovan.sdk.core import deployment_calls
from sokovan.sdk.core.calls import Call
from sokovan.sdk.core.responses import decoded
from sokovan.sdk.core.streams.followers import text_of
from sokovan.sdk.core.streams.server_events import ServerEvent
from sokovan.wire.api.deployments import ChatBody, ChatPart


class ChatFollower:
    """Follows one answer of a model."""

    def __init__(self, ref: str, body: ChatBody) -> None:
        self._ref, self._body = ref, body
        self._over = False

    def call(self) -> Call[object]:
        """The request of the answer."""
        return deployment_calls.chat(self._ref, self._body)

    def accept(self, event: ServerEvent) -> str | None:
        """The text of a part."""
        if event.is_keep_alive:
            return None
        part = decoded(text_of(event), ChatPart)
        self._over = self._over or part.end
        return part.text or None

    def is_over(self) -> bool:
        """Whether the answer is complete."""
        return self._over
