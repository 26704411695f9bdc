"""ASGI middleware: request ids, authentication, limits and metrics.

Every route is behind it, so no route can omit authentication.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sokovan.api.access.auditing import Auditor
from sokovan.api.access.authentication import PRINCIPAL, AuthenticatedPrincipal, Authenticator, token_of
from sokovan.api.access.logins import LOGINS_PATH, code_of, halves_of, may_log_in, require_same_page
from sokovan.api.access.proxies import PROXY_PATHS, require_proxy
from sokovan.api.access.request_limits import BATCH_BYTES_MAX, Buckets, LimitedBody, require_length
from sokovan.api.context import ApiDependencies
from sokovan.api.errors import ForeignOrigin, Unauthenticated
from sokovan.api.problems import forget_frames, problem_response
from sokovan.api.settings import ApiSettings
from sokovan.domain.errors import SokovanError
from sokovan.ports.repositories.credentials import Principal
from sokovan.wire.api.batches import BATCH_PATH, STOP_PATH

# The liveness probe and the files of the dashboard, which are the same for all, need no key.
OPEN_PATH = "/livez"
DASHBOARD_PATH = "/ui"
REQUEST_ID = "sokovan.request_id"
UNMATCHED = "unmatched"
NO_KNOWN_KEY = "requests without a known key"
POLICY_VIOLATION = 1008
# The usual status in logs and metrics of a request whose client hung up; it is never sent.
CLIENT_CLOSED = 499
# An address with too many failures may present this many new keys a second.
LOOKUPS_PER_S = 5
_logger = logging.getLogger("sokovan.api")
_logger.addHandler(logging.NullHandler())
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", re.ASCII)
# DNS rebinding and foreign pages both show in the Host or Origin header that the browser sets.
_HOST = re.compile(r"(?P<host>[A-Za-z0-9.\-_]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>.+)", re.ASCII | re.IGNORECASE)
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def request_id_of(scope: Scope) -> str:
    """The id of this request."""
    return str(scope.get(REQUEST_ID, ""))


class RequestMiddleware:
    """Middleware for HTTP and WebSocket requests."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        dependencies: ApiDependencies,
        settings: ApiSettings,
        authenticator: Authenticator,
        auditor: Auditor,
    ) -> None:
        self._app, self._settings, self._authenticator, self._auditor = app, settings, authenticator, auditor
        self._clock, self._ids, self._telemetry = dependencies.clock, dependencies.ids, dependencies.telemetry
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)
        self._requests = Buckets(self._clock, per_s=settings.requests_per_s, burst=settings.requests_burst)
        per_minute = settings.failures_per_minute
        self._failures = Buckets(self._clock, per_s=per_minute / 60, burst=per_minute)
        self._lookups = Buckets(self._clock, per_s=LOOKUPS_PER_S, burst=LOOKUPS_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit or reject a request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scope[REQUEST_ID] = self._request_id(headers)
        response = _Response(send, scope[REQUEST_ID])
        began_ms = self._clock.monotonic_ms()
        try:
            scope[PRINCIPAL] = await self._admit(scope, headers)
            await self._app(scope, LimitedBody(receive, self._body_max(scope)), response)
        except ClientDisconnect:
            # The client hung up while it sent its body: no answer is expected, and nothing has failed.
            response.status = CLIENT_CLOSED
        except Exception as error:
            if not isinstance(error, SokovanError):
                # The client gets the request id; the log has the details under it.
                _logger.exception("request %s failed", scope[REQUEST_ID])
                self._telemetry.count("api_failures_total")
            if response.begun:
                raise
            await refuse(scope, receive, response, error)
            forget_frames(error)
        finally:
            seconds = (self._clock.monotonic_ms() - began_ms) / 1000
            route = getattr(scope.get("route"), "path_format", UNMATCHED)
            method = str(scope.get("method", "WEBSOCKET"))
            self._telemetry.observe("api_seconds", seconds, route=route, method=method, status=str(response.status))

    def _body_max(self, scope: Scope) -> int:
        """The size limit of a body; that of a batch is read line by line."""
        if scope["path"] in PROXY_PATHS:
            return PROXY_PATHS[scope["path"]]
        return BATCH_BYTES_MAX if scope["path"] in {BATCH_PATH, STOP_PATH} else self._settings.body_bytes_max

    def _request_id(self, headers: Headers) -> str:
        given = headers.get("x-request-id", "")
        return given if _REQUEST_ID.fullmatch(given) else self._ids.new("req")

    async def _admit(self, scope: Scope, headers: Headers) -> AuthenticatedPrincipal | None:
        require_own(headers.get("host"), headers.get("origin"), self._hosts)
        length = headers.get("content-length")
        require_length(length.encode() if length is not None else None, limit=self._body_max(scope))
        if scope["type"] == "http" and _is_open(scope):
            return None
        address = str(scope["client"][0]) if scope.get("client") else ""
        if scope["type"] == "http" and scope["path"] in PROXY_PATHS:
            self._admit_proxy(headers, address)
            return None
        authorization = headers.get("authorization")
        token = token_of(authorization)
        found = await (self._lookup(token, address) if token is not None else self._of_browser(scope, headers, address))
        if found is None:
            self._failures.require(address, what=NO_KNOWN_KEY)
            if authorization is not None:
                await self._auditor.refused(token, address=address, request_id=scope[REQUEST_ID])
            raise Unauthenticated
        digest, identity = found
        principal = AuthenticatedPrincipal(identity, digest, scope[REQUEST_ID], address)
        # By user: more keys give no more requests.
        self._requests.require(principal.user, what=f"requests of user {principal.user}")
        return principal

    def _admit_proxy(self, headers: Headers, address: str) -> None:
        """Admit a proxy; failures count as those of other keys. Raises Unauthenticated."""
        try:
            require_proxy(headers.get("authorization"), self._settings.proxy_token)
        except Unauthenticated:
            self._failures.require(address, what=NO_KNOWN_KEY)
            raise

    async def _of_browser(self, scope: Scope, headers: Headers, address: str) -> tuple[str, Principal] | None:
        """The principal of a login, or of a code that begins one. Raises ForeignOrigin, TooManyRequests."""
        if not may_log_in(scope):
            return None
        authorization = headers.get("authorization")
        code = code_of(authorization) if (scope.get("method"), scope["path"]) == ("POST", LOGINS_PATH) else None
        halves = halves_of(headers) if authorization is None else None
        if code is None and halves is None:
            return None
        require_same_page(scope, headers)
        digest = ""
        if halves is not None:
            digest = self._authenticator.login_digest(halves)
        elif code is not None:
            digest = self._authenticator.code_digest(code)
        if self._failures.is_empty(address) and not self._authenticator.holds(digest):
            self._lookups.require(address, what=NO_KNOWN_KEY)
        found = await (
            self._authenticator.current(digest) if halves is not None else self._authenticator.code_principal(digest)
        )
        return None if found is None else (digest, found)

    async def _lookup(self, token: str, address: str) -> tuple[str, Principal] | None:
        """The principal of a token. Raises TooManyRequests.

        A valid key in use is never locked out by failures of other clients at its
        address; lookups of unknown keys are rate-limited there.
        """
        if self._failures.is_empty(address) and not self._authenticator.is_cached(token):
            self._lookups.require(address, what=NO_KNOWN_KEY)
        return await self._authenticator.principal(token)


class _Response:
    """Adds headers to the response and records its status."""

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
    """Respond with a problem; close a WebSocket that cannot carry one."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": getattr(error, "code", "internal")})
        return
    await problem_response(error, request_id_of(scope))(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    """Whether a request needs no key."""
    path = scope["path"]
    is_page = path == DASHBOARD_PATH or path.startswith(f"{DASHBOARD_PATH}/")
    return path == OPEN_PATH or (is_page and scope["method"] in {"GET", "HEAD"})


def host_name(text: str) -> str | None:
    """The name in a Host header, without its port, in lower case."""
    found = _HOST.fullmatch(text)
    return found["host"].lower() if found else None


def require_own(host: str | None, origin: str | None, allowed: Collection[str]) -> None:
    """Reject a request to or from another host. Raises ForeignOrigin."""
    if host_name(host or "") not in allowed:
        raise ForeignOrigin(header="Host", value=host or "")
    if origin is None:
        return
    found = _ORIGIN.fullmatch(origin)
    if found is None or host_name(found["host"]) not in allowed:
        raise ForeignOrigin(header="Origin", value=origin)
