"""The HTTP client of the async SDK: its requests, and its failures."""

from __future__ import annotations

import httpx2
import pytest

from sokovan.sdk.http.aio import AsyncHttp
from sokovan.sdk.http.requests import HttpFailure, HttpRequest

REQUEST = HttpRequest(method="POST", target="/x?a=1", headers={"A": "b"}, content=b"body", read_s=3.0, connect_s=2.0)


async def test_a_request_is_sent_whole() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, content=b"hi")

    http = AsyncHttp("http://sokovan.test/base", proxies=False, transport=httpx2.MockTransport(answer))
    async with http.exchange(REQUEST) as response:
        assert (response.status_code, await response.aread()) == (200, b"hi")
    await http.close()
    [request] = seen
    assert (request.method, str(request.url)) == ("POST", "http://sokovan.test/base/x?a=1")
    assert (request.headers["a"], request.content) == ("b", b"body")
    assert request.extensions["timeout"] == {"connect": 2.0, "read": 3.0, "write": 3.0, "pool": 3.0}


@pytest.mark.parametrize(
    ("error", "sent", "slow"),
    [
        (httpx2.ConnectError("refused"), False, False),
        (httpx2.ConnectTimeout(""), False, True),
        (httpx2.ReadTimeout(""), True, True),
        (httpx2.RemoteProtocolError(""), True, False),
    ],
)
async def test_a_failure_says_whether_the_request_may_have_arrived(error: Exception, *, sent: bool, slow: bool) -> None:
    def fail(_: httpx2.Request) -> httpx2.Response:
        raise error

    http = AsyncHttp("http://sokovan.test", proxies=False, transport=httpx2.MockTransport(fail))
    with pytest.raises(HttpFailure) as caught:
        async with http.exchange(REQUEST):
            pass
    assert (caught.value.sent, caught.value.slow) == (sent, slow)
