"""The gateway of served models, as a client of it sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

from sokovan.domain.errors import SokovanError


class ModelFailed(SokovanError):
    """The gateway or the engine behind it gave no answer, or broke it off."""

    code = "model-failed"
    hint = "see sokovan deployment why NAME"


class ModelGateway(Protocol):
    """Asks models through the gateway."""

    def answer(self, token: str, request: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """Yield the text of an answer part by part, as it comes.

        `request` is a chat completion, `token` an endpoint token. Closing the generator gives up the
        rest of the answer. Raises ModelFailed.
        """
