"""The one door: every request gets a number, is checked, counted and timed here.

No route can be reached around it, so none can forget to ask for a key.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sokovan.api.access.authentication import PRINCIPAL, AuthenticatedPrincipal, Authenticator, token_of
from sokovan.api.access.request_limits import Buckets, LimitedBody, require_length
from sokovan.api.context import ApiDependencies
from sokovan.api.errors import ForeignOrigin, Unauthenticated
from sokovan.api.problems import problem_response
from sokovan.api.settings import ApiSettings
from sokovan.domain.errors import SokovanError
from sokovan.ports.repositories.credentials import Principal

# The only thing that answers without a key: that the process is alive.
OPEN_PATH = "/livez"
REQUEST_ID = "sokovan.request_id"
UNMATCHED = "unmatched"
NO_KNOWN_KEY = "requests without a key that is known"
POLICY_VIOLATION = 1008
# An address that has failed too often may still show keys that are new to us, but only so many a second.
LOOKS_PER_S = 5
_logger = logging.getLogger("sokovan.api")
_logger.addHandler(logging.NullHandler())
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", re.ASCII)
# DNS rebinding and foreign pages both show in the Host or Origin header that the browser sets.
_HOST = re.compile(r"(?P<host>[A-Za-z0-9.\-_]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>.+)", re.ASCII | re.IGNORECASE)
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def request_id_of(scope: Scope) -> str:
    """The number of this request."""
    return str(scope.get(REQUEST_ID, ""))


class RequestMiddleware:
    """ASGI middleware for HTTP and WebSocket alike."""

    def __init__(
        self, app: ASGIApp, *, dependencies: ApiDependencies, settings: ApiSettings, authenticator: Authenticator
    ) -> None:
        self._app, self._dependencies, self._settings, self._authenticator = app, dependencies, settings, authenticator
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)
        self._requests = Buckets(dependencies.clock, per_s=settings.requests_per_s, burst=settings.requests_burst)
        per_minute = settings.failures_per_minute
        self._failures = Buckets(dependencies.clock, per_s=per_minute / 60, burst=per_minute)
        self._looks = Buckets(dependencies.clock, per_s=LOOKS_PER_S, burst=LOOKS_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scope[REQUEST_ID] = self._request_id(headers)
        answer = _Answer(send, scope[REQUEST_ID])
        began_ms = self._dependencies.clock.monotonic_ms()
        try:
            scope[PRINCIPAL] = await self._admitted(scope, headers)
            await self._app(scope, LimitedBody(receive, self._settings.body_bytes_max), answer)
        except Exception as error:
            if not isinstance(error, SokovanError):
                # The client learns the number of the request, the operator finds the rest under it.
                _logger.exception("request %s failed", scope[REQUEST_ID])
                self._dependencies.telemetry.count("api_failures_total")
            if answer.begun:
                raise
            await refuse(scope, receive, answer, error)
        finally:
            seconds = (self._dependencies.clock.monotonic_ms() - began_ms) / 1000
            route = getattr(scope.get("route"), "path_format", UNMATCHED)
            method = str(scope.get("method", "WEBSOCKET"))
            self._dependencies.telemetry.observe(
                "api_seconds", seconds, route=route, method=method, status=str(answer.status)
            )

    def _request_id(self, headers: Headers) -> str:
        given = headers.get("x-request-id", "")
        return given if _REQUEST_ID.fullmatch(given) else self._dependencies.ids.new("req")

    async def _admitted(self, scope: Scope, headers: Headers) -> AuthenticatedPrincipal | None:
        require_own(headers.get("host"), headers.get("origin"), self._hosts)
        length = headers.get("content-length")
        require_length(length.encode() if length is not None else None, limit=self._settings.body_bytes_max)
        if scope["type"] == "http" and scope["path"] == OPEN_PATH:
            return None
        address = str(scope["client"][0]) if scope.get("client") else ""
        token = token_of(headers.get("authorization"))
        found = await self._found(token, address) if token is not None else None
        if found is None:
            self._failures.require(address, what=NO_KNOWN_KEY)
            raise Unauthenticated
        digest, identity = found
        principal = AuthenticatedPrincipal(identity, digest, scope[REQUEST_ID], address)
        self._requests.require(principal.access_key, what=f"requests with key {principal.access_key}")
        return principal

    async def _found(self, token: str, address: str) -> tuple[str, Principal] | None:
        """Whose token it is. Raises TooManyRequests.

        A key in use is never locked out by what others at its address do; but where many
        guess, looking is dear, and what was not seen before has to queue.
        """
        if self._failures.is_empty(address) and not self._authenticator.has_known(token):
            self._looks.require(address, what=NO_KNOWN_KEY)
        return await self._authenticator.principal(token)


class _Answer:
    """What goes out: every answer carries its number, and its status is noted."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self._request_id = send, request_id
        self.status, self.begun = int(HTTPStatus.INTERNAL_SERVER_ERROR), False

    async def __call__(self, message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            self.status, self.begun = message["status"], True
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._request_id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        elif message["type"] in {"websocket.accept", "websocket.close"}:
            self.begun = True
            self.status = HTTPStatus.SWITCHING_PROTOCOLS if message["type"] == "websocket.accept" else self.status
        await self._send(message)


async def refuse(scope: Scope, receive: Receive, send: Send, error: BaseException) -> None:
    """Answer with a problem; a WebSocket that cannot carry one is closed."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": getattr(error, "code", "internal")})
        return
    await problem_response(error, request_id_of(scope))(scope, receive, send)


def host_name(text: str) -> str | None:
    """The name in a Host header, without its port, in lower case."""
    found = _HOST.fullmatch(text)
    return found["host"].lower() if found else None


def require_own(host: str | None, origin: str | None, allowed: Collection[str]) -> None:
    """Refuse a request for another host, or from a page of one. Raises ForeignOrigin."""
    if host_name(host or "") not in allowed:
        raise ForeignOrigin(header="Host", value=host or "")
    if origin is None:
        return
    found = _ORIGIN.fullmatch(origin)
    if found is None or host_name(found["host"]) not in allowed:
        raise ForeignOrigin(header="Origin", value=origin)
