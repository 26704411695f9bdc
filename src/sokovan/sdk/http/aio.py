"""The HTTP client of the async SDK, on httpx2."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from sokovan.sdk.http.requests import HttpFailure, HttpRequest
from sokovan.sdk.http.sync import certificates

AsyncTransport = httpx2.AsyncBaseTransport
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.InvalidURL)


class AsyncHttp:
    """Sends requests over kept connections.

    With `proxies`, those of the environment are used.
    """

    def __init__(self, url: str, *, proxies: bool, ca: str = "", transport: AsyncTransport | None = None) -> None:
        # Loading the system's certificates takes longer than a request, and http:// does not need them.
        verify = certificates(ca) if ca and url.startswith("https") else url.startswith("https")
        self._client = httpx2.AsyncClient(
            base_url=url, transport=transport, verify=verify, trust_env=proxies, follow_redirects=False
        )

    @asynccontextmanager
    async def exchange(self, request: HttpRequest) -> AsyncIterator[httpx2.Response]:
        """Send a request and give its response. Raises HttpFailure."""
        timeout = httpx2.Timeout(request.read_s, connect=request.connect_s)
        try:
            async with self._client.stream(
                request.method, request.target, headers=request.headers, content=request.content, timeout=timeout
            ) as response:
                yield response
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            slow = isinstance(error, httpx2.TimeoutException)
            raise HttpFailure(error, sent=not isinstance(error, _UNSENT), slow=slow) from error

    async def close(self) -> None:
        """Close the sockets."""
        await self._client.aclose()
