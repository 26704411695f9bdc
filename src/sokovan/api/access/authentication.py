"""Authentication by token or login, with a short-lived cache.

A token is `sk-`, a public access key, a dot, and 256 random bits. The store has only a
digest keyed with the server's pepper, which cannot be used to authenticate.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets  # noqa: TID251  # tokens must be unpredictable
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Scope

from sokovan.api.access.logins import LoginHalves, code_named, login_of, principal_with, record_use
from sokovan.api.errors import Unauthenticated
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.access import AccessSubject
from sokovan.domain.owners.login import Login
from sokovan.domain.owners.tenancy import DEFAULT_OWNER_NAME, Owner
from sokovan.domain.session_request import Caller
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.credentials import Principal
from sokovan.ports.storage import Store, UnitOfWork

PREFIX = "sk-"
SECRET_BYTES = 32
CACHED_MAX = 10_000
# Negative cache: how long an unknown token is not looked up again.
REJECTED_KEPT_S = 1.0
_TOKEN = re.compile(r"sk-([A-Za-z0-9][A-Za-z0-9_\-]{0,127})\.([A-Za-z0-9_\-]{43})", re.ASCII)
_SCHEME = "bearer "
# Key of the principal in the scope of a request.
PRINCIPAL = "sokovan.principal"
# The digests of logins and of login codes begin with these; those of keys are hexadecimal.
LOGIN, CODE = "login:", "code:"


def new_token(access_key: AccessKey) -> str:
    """A new random token for this key."""
    return f"{PREFIX}{access_key}.{new_secret()}"


def new_secret() -> str:
    """A new random secret."""
    return secrets.token_urlsafe(SECRET_BYTES)


def token_digest(token: str, pepper: bytes) -> str:
    """The stored digest of a token: HMAC-SHA-256 with the server's pepper."""
    return hmac.new(pepper, token.encode(), hashlib.sha256).hexdigest()


def token_of(authorization: str | None) -> str | None:
    """The token in an Authorization header; None if it is not well-formed."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    token = authorization[len(_SCHEME) :].strip()
    return token if _TOKEN.fullmatch(token) else None


def access_key_of(token: str) -> str:
    """The access key in a well-formed token, which is public."""
    return token.removeprefix(PREFIX).rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class AuthenticatedPrincipal:
    """The authenticated caller of a request, with the request's id."""

    identity: Principal
    digest: str
    request_id: str = ""
    address: str = ""

    @property
    def login_id(self) -> str:
        """The login that was used; empty if it was a key or a code."""
        return self.digest.removeprefix(LOGIN).partition(":")[0] if self.digest.startswith(LOGIN) else ""

    @property
    def code_id(self) -> str:
        """The login code that was used; empty if it was a key or a login."""
        return self.digest.removeprefix(CODE).partition(":")[0] if self.digest.startswith(CODE) else ""

    @property
    def user(self) -> str:
        """The user's name."""
        return self.identity.user.name

    @property
    def access_key(self) -> AccessKey:
        """The access key that was used."""
        return self.identity.keypair.access_key

    @property
    def subject(self) -> AccessSubject:
        """The caller for access checks."""
        user = self.identity.user
        return AccessSubject(user=user.name, domain=user.domain, role=user.role, groups=user.groups)

    @property
    def caller(self) -> Caller:
        """The caller for the scheduling controller."""
        user = self.identity.user
        group = user.groups[0] if user.groups else DEFAULT_OWNER_NAME
        owner = Owner(user=user.name, group=group, domain=user.domain, access_key=self.access_key)
        return Caller(owner=owner, role=user.role, groups=user.groups)


class Authenticator:
    """Looks up the principal of a token, cached for at most `kept_s`."""

    def __init__(self, store: Store, clock: Clock, *, pepper: bytes, kept_s: float) -> None:
        self._store, self._clock, self._pepper = store, clock, pepper
        self._kept_ms = kept_s * 1000
        self._cached: OrderedDict[str, tuple[Principal, float]] = OrderedDict()
        self._rejected: OrderedDict[str, float] = OrderedDict()

    def is_cached(self, token: str) -> bool:
        """Whether this token is in the cache of valid tokens."""
        return token_digest(token, self._pepper) in self._cached

    async def principal(self, token: str) -> tuple[str, Principal] | None:
        """The digest and the principal of a token; None if it is not valid."""
        digest = token_digest(token, self._pepper)
        found = await self.current(digest)
        named = _TOKEN.fullmatch(token)
        if found is None or named is None:
            return None
        # The digest covers the access key, so this can only differ if the store was tampered with.
        same = hmac.compare_digest(named[1].encode(), found.keypair.access_key.encode())
        return (digest, found) if same else None

    def login_digest(self, halves: LoginHalves) -> str:
        """The digest of a login: its id, and the keyed digest of both halves."""
        return f"{LOGIN}{halves.login_id}:{token_digest(halves.secret, self._pepper)}"

    def code_digest(self, code: str) -> str:
        """The digest of a login code: its id, and the keyed digest."""
        return f"{CODE}{code.partition('.')[0]}:{token_digest(code, self._pepper)}"

    def holds(self, digest: str) -> bool:
        """Whether this digest is in the cache of valid ones."""
        return digest in self._cached

    async def code_principal(self, digest: str) -> Principal | None:
        """The principal of a login code; None if it is unknown, used or late."""
        return await self._store.read(lambda unit: _by_code(unit, digest))

    async def current(self, digest: str) -> Principal | None:
        """The current principal of a digest; None once it is revoked."""
        known = self._cached.get(digest)
        now_ms = self._clock.monotonic_ms()
        if known is not None and now_ms < known[1]:
            return known[0]
        if now_ms < self._rejected.get(digest, 0.0):
            return None
        found = await self._found(digest)
        if found is None:
            self._cached.pop(digest, None)
            self._reject(digest, now_ms + REJECTED_KEPT_S * 1000)
            return None
        self._cached[digest] = (found, now_ms + self._kept_ms)
        self._cached.move_to_end(digest)
        while len(self._cached) > CACHED_MAX:
            self._cached.popitem(last=False)
        return found

    async def _found(self, digest: str) -> Principal | None:
        if not digest.startswith(LOGIN):
            return await self._store.read(lambda unit: unit.credentials.find(digest))
        login_id, _, of_both = digest.removeprefix(LOGIN).partition(":")

        async def work(unit: UnitOfWork) -> tuple[Principal | None, Login | None]:
            login = await login_of(unit, login_id, of_both)
            if login is None:
                return None, None
            return await principal_with(unit, login.access_key), login.used_at(unit.now_ms)

        found, used = await self._store.read(work)
        if used is not None:
            with suppress(SokovanError):  # the request does not depend on it
                await self._store.run(lambda unit: record_use(unit, used))
        return found

    def _reject(self, digest: str, until_ms: float) -> None:
        self._rejected[digest] = until_ms
        self._rejected.move_to_end(digest)
        while len(self._rejected) > CACHED_MAX:
            self._rejected.popitem(last=False)

    def forget(self, access_key: AccessKey) -> None:
        """Drop this key from the cache."""
        for digest in [d for d, (found, _) in self._cached.items() if found.keypair.access_key == access_key]:
            del self._cached[digest]

    def forget_user(self, name: str) -> None:
        """Drop every key of this user from the cache."""
        self._rejected.clear()  # a rejected key may be valid again
        for digest in [d for d, (found, _) in self._cached.items() if found.user.name == name]:
            del self._cached[digest]


async def _by_code(unit: UnitOfWork, digest: str) -> Principal | None:
    code_id, _, of_code = digest.removeprefix(CODE).partition(":")
    code = await code_named(unit, code_id, of_code)
    return None if code is None else await principal_with(unit, code.access_key)


def principal_of(scope: Scope) -> AuthenticatedPrincipal:
    """The authenticated principal of this request. Raises Unauthenticated."""
    principal = scope.get(PRINCIPAL)
    if not isinstance(principal, AuthenticatedPrincipal):
        raise Unauthenticated
    return principal
