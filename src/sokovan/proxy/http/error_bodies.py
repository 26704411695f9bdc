"""Refusals of the proxy, in the form that clients of OpenAI's API understand."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from sokovan.proxy.http.head_writer import own_response

# The kind of error that a client derives from the status.
_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
          413: "invalid_request_error", 429: "rate_limit_error"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProxyRefusal:
    """A request that the proxy answers itself: status, stable code and a sentence.

    `retry_after_s` says when it is worth to try again.
    """

    status: int
    code: str
    text: str
    retry_after_s: int | None = None
    param: str | None = None

    def body(self) -> bytes:
        """The error as JSON in OpenAI's form."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return msgspec.json.encode(
            {"error": {"message": self.text, "type": kind, "param": self.param, "code": self.code}}
        )

    def response(self, *, keep_alive: bool, without_body: bool = False) -> bytes:
        """The whole response; that to HEAD has no body."""
        fields = b"" if self.retry_after_s is None else b"retry-after: %d\r\n" % self.retry_after_s
        if self.status == 401:
            fields += b'www-authenticate: Bearer realm="sokovan"\r\n'
        body = self.body()
        whole = own_response(self.status, body, keep_alive=keep_alive, fields=fields)
        return whole[: -len(body)] if without_body else whole

    def event(self) -> bytes:
        """The error as the last event of a stream that has begun."""
        return b"data: " + self.body() + b"\n\n"
