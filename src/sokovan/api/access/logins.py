"""Logins of browsers: their two halves, and what a request with them must show.

Browsers send cookies to every port of a host, so programs of users on this machine see ours.
The other half, the proof, is in the storage of the page's origin, which includes the port.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.types import Scope

from sokovan.api.errors import ForeignOrigin
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.login import LOGIN_LASTS_MS, Login, LoginCode
from sokovan.domain.owners.tenancy import Keypair, User
from sokovan.ports.repositories.credentials import Principal
from sokovan.ports.storage import UnitOfWork

LOGINS_PATH = "/api/v1/logins"
PROOF_HEADER = "x-sokovan-proof"
# Pages cannot set headers of a WebSocket, so the proof is one of the protocols that they offer.
PROTOCOLS_HEADER = "sec-websocket-protocol"
PROOF_PROTOCOL = "sokovan-proof."
# In the Authorization header, instead of `Bearer`.
CODE_SCHEME = "login-code "
COOKIE = "sokovan-login"
# With TLS a browser accepts this name only from this host, for all paths, and marked as secure.
SECURE_COOKIE = "__Host-sokovan-login"
COOKIES_BYTES_MAX = 8_192
_HALF = re.compile(r"LI-[0-9A-Z]{1,40}\.[A-Za-z0-9_\-]{43}", re.ASCII)
_PROOF = re.compile(r"[A-Za-z0-9_\-]{43}", re.ASCII)
_CODE = re.compile(r"LC-[0-9A-Z]{1,40}\.[A-Za-z0-9_\-]{43}", re.ASCII)
_READS = frozenset({"GET", "HEAD"})
# The only WebSocket that a login opens.
_EXEC = re.compile(r"/api/v1/sessions/[^/]+/kernels/[0-9]+/exec", re.ASCII)
_PAGE_SCHEMES = {"ws": "http", "wss": "https"}


@dataclass(frozen=True, slots=True)
class LoginHalves:
    """The cookie and the proof of a request; `repr` omits both."""

    login_id: str
    secret: str

    def __repr__(self) -> str:
        return f"LoginHalves({self.login_id})"


def joined(cookie: str, proof: str) -> LoginHalves:
    """Both halves as one secret, which the stored digest is of."""
    return LoginHalves(cookie.partition(".")[0], f"{cookie}\n{proof}")


def halves_of(headers: Headers) -> LoginHalves | None:
    """The halves in these headers; None unless both are there and well-formed."""
    proof, cookie = headers.get(PROOF_HEADER, "") or _offered_proof(headers), _cookie_of(headers)
    return joined(cookie, proof) if cookie and _PROOF.fullmatch(proof) else None


def may_log_in(scope: Scope) -> bool:
    """Whether a login opens this: every request, and the WebSocket of a command."""
    return scope["type"] == "http" or _EXEC.fullmatch(scope["path"]) is not None


def code_of(authorization: str | None) -> str | None:
    """The login code in an Authorization header; None if it is not well-formed."""
    if authorization is None or authorization[: len(CODE_SCHEME)].lower() != CODE_SCHEME:
        return None
    code = authorization[len(CODE_SCHEME) :].strip()
    return code if _CODE.fullmatch(code) else None


def require_same_page(scope: Scope, headers: Headers) -> None:
    """Reject a request of a page of another origin. Raises ForeignOrigin.

    The port counts: another one of this host serves programs of users. Browsers omit the
    Origin header of their own reads, and may omit Sec-Fetch-Site where they open a WebSocket.
    """
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    is_socket, scheme = scope["type"] == "websocket", scope["scheme"]
    if origin is None and (is_socket or scope["method"] not in _READS):
        raise ForeignOrigin(header="Origin", value="")
    # A server behind a proxy that terminates TLS sees HTTP.
    own = {f"{_PAGE_SCHEMES.get(scheme, scheme)}://{host}", f"https://{host}"}
    if origin is not None and origin.lower() not in own:
        raise ForeignOrigin(header="Origin", value=origin)
    site = headers.get("sec-fetch-site", "")
    if site != "same-origin" and not (is_socket and site == ""):
        raise ForeignOrigin(header="Sec-Fetch-Site", value=site)


def set_cookie(headers: Headers, value: str) -> str:
    """The Set-Cookie header of a new login, or of an ended one if `value` is empty."""
    lasts_s = LOGIN_LASTS_MS // 1000 if value else 0
    usual = f"HttpOnly; SameSite=Strict; Max-Age={lasts_s}"
    if headers.get("origin", "").lower().startswith("https://"):
        return f"{SECURE_COOKIE}={value}; Path=/; Secure; {usual}"
    return f"{_plain_name(headers)}={value}; Path=/api; {usual}"


async def login_of(unit: UnitOfWork, login_id: str, digest: str) -> Login | None:
    """The live login with this digest of both halves."""
    [login] = await unit.catalog.find((Login, login_id))
    if not isinstance(login, Login) or not login.is_live(unit.now_ms):
        return None
    return login if hmac.compare_digest(login.digest, digest) else None


async def code_named(unit: UnitOfWork, code_id: str, digest: str) -> LoginCode | None:
    """The live code with this digest."""
    [code] = await unit.catalog.find((LoginCode, code_id))
    if not isinstance(code, LoginCode) or not code.is_live(unit.now_ms):
        return None
    return code if hmac.compare_digest(code.digest, digest) else None


async def principal_with(unit: UnitOfWork, access_key: AccessKey) -> Principal | None:
    """The principal of a key; None once it is revoked."""
    [keypair] = await unit.catalog.find((Keypair, access_key))
    if not isinstance(keypair, Keypair) or not keypair.active:
        return None
    [user] = await unit.catalog.find((User, keypair.user))
    return Principal(keypair, user) if isinstance(user, User) else None


async def record_use(unit: UnitOfWork, login: Login) -> None:
    """Store that a login was used, unless it was ended meanwhile."""
    [found] = await unit.catalog.find((Login, login.name))
    if found is not None:
        await unit.catalog.put(login)


def _offered_proof(headers: Headers) -> str:
    offered = (one.strip() for one in headers.get(PROTOCOLS_HEADER, "").split(","))
    return next((one.removeprefix(PROOF_PROTOCOL) for one in offered if one.startswith(PROOF_PROTOCOL)), "")


def _plain_name(headers: Headers) -> str:
    """The name of the cookie without TLS: servers on other ports of the host have names of their own."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdigit() else COOKIE


def _cookie_of(headers: Headers) -> str:
    """The cookie of a login; empty if there is none, or not a well-formed one."""
    text = headers.get("cookie", "")
    if len(text) > COOKIES_BYTES_MAX:
        return ""
    try:
        found = SimpleCookie(text)
    except CookieError:
        return ""
    for name in (SECURE_COOKIE, _plain_name(headers)):
        if name in found and _HALF.fullmatch(found[name].value):
            return found[name].value
    return ""
