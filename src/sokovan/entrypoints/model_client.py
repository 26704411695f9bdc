"""Client of the gateway, for pages that reach no other origin."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from sokovan.api.errors import ModelFailed
from sokovan.wire.serving.chat_events import ChatFailed, MalformedChat, refusal_of, text_of

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
# A cold model may take minutes until its first word.
READ_S = 600.0
# The longest line of an answer, and the longest text of a refusal.
LINE_MAX = 1 << 20
REFUSAL_MAX = 1 << 16


class ModelClient:
    """Client of the gateway at a base URL, which ends with its version."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def answer(self, token: str, request: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """Yield the text of an answer part by part, as it comes.

        `request` is a chat completion, `token` an endpoint token. Closing the generator gives up the
        rest of the answer. Raises ModelFailed.
        """
        import httpx2  # noqa: PLC0415  # only those load it who ask a model

        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        limits = httpx2.Timeout(READ_S, connect=CONNECT_S)
        try:
            # Proxies of the environment are for other hosts.
            async with (
                httpx2.AsyncClient(timeout=limits, trust_env=False) as client,
                client.stream(
                    "POST", f"{self._url}/chat/completions", json={**request, "stream": True}, headers=headers
                ) as response,
            ):
                if response.status_code != 200:
                    raise ModelFailed(await _refusal(response))
                async for line in _lines(response):
                    yield _text(line)
        except (httpx2.HTTPError, OSError) as error:
            raise ModelFailed(f"the gateway does not answer: {str(error) or type(error).__name__}") from error


async def _lines(response: httpx2.Response) -> AsyncIterator[str]:
    """The lines of a response. Raises ModelFailed for one that is too long."""
    rest = ""
    async for piece in response.aiter_text():
        *lines, rest = (rest + piece).split("\n")
        if len(rest) > LINE_MAX:
            raise ModelFailed("a line of the answer is too long")
        for line in lines:
            yield line


def _text(line: str) -> str:
    """The part of the answer in a line of the stream. Raises ModelFailed."""
    try:
        return text_of(line.encode())
    except ChatFailed as error:
        raise ModelFailed(str(error)) from None
    except MalformedChat:
        raise ModelFailed("the answer is not that of a chat") from None


async def _refusal(response: httpx2.Response) -> str:
    content = b""
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > REFUSAL_MAX:
            break
    return refusal_of(content, response.status_code)
