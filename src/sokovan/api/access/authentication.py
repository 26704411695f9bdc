"""Who calls: tokens, their digests, and how long a look is remembered.

A token is `sk-`, an access key that may be seen, a dot, and 256 bits of chance. The
store has only a digest that is keyed with the server's pepper: a copy of it opens
nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets  # noqa: TID251  # a token that could be made again would be no secret
from collections import OrderedDict
from dataclasses import dataclass

from starlette.types import Scope

from sokovan.api.errors import Unauthenticated
from sokovan.domain.access import AccessSubject
from sokovan.domain.ids import AccessKey
from sokovan.domain.tenancy import DEFAULT_OWNER_NAME, Owner
from sokovan.orchestrator.sessions.intake.requests import Caller
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.credentials import Principal
from sokovan.ports.storage import Store

PREFIX = "sk-"
SECRET_BYTES = 32
REMEMBERED_MAX = 10_000
# A token that nobody has is not looked for again for so long.
REFUSED_KEPT_S = 1.0
_TOKEN = re.compile(r"sk-([A-Za-z0-9][A-Za-z0-9_\-]{0,127})\.([A-Za-z0-9_\-]{43})", re.ASCII)
_SCHEME = "bearer "
# Key of the principal in the scope of a request.
PRINCIPAL = "sokovan.principal"


def new_token(access_key: AccessKey) -> str:
    """A token for this key, which nobody has seen before."""
    return f"{PREFIX}{access_key}.{secrets.token_urlsafe(SECRET_BYTES)}"


def token_digest(token: str, pepper: bytes) -> str:
    """What the store has of a token: its HMAC-SHA-256 with the server's pepper."""
    return hmac.new(pepper, token.encode(), hashlib.sha256).hexdigest()


def token_of(authorization: str | None) -> str | None:
    """The token in an Authorization header; None for anything that cannot be one."""
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        return None
    token = authorization[len(_SCHEME) :].strip()
    return token if _TOKEN.fullmatch(token) else None


@dataclass(frozen=True, slots=True)
class AuthenticatedPrincipal:
    """Who makes a request, and which one it is."""

    identity: Principal
    digest: str
    request_id: str = ""
    address: str = ""

    @property
    def user(self) -> str:
        """The user's name."""
        return self.identity.user.name

    @property
    def access_key(self) -> AccessKey:
        """The key that was used."""
        return self.identity.keypair.access_key

    @property
    def subject(self) -> AccessSubject:
        """The user as the rules of access see him."""
        user = self.identity.user
        return AccessSubject(user=user.name, domain=user.domain, role=user.role, groups=user.groups)

    @property
    def caller(self) -> Caller:
        """The user as the controller sees him."""
        user = self.identity.user
        group = user.groups[0] if user.groups else DEFAULT_OWNER_NAME
        owner = Owner(user=user.name, group=group, domain=user.domain, access_key=self.access_key)
        return Caller(owner=owner, role=user.role, groups=user.groups)


class Authenticator:
    """Finds whom a token belongs to, and remembers it for `kept_s` at most."""

    def __init__(self, store: Store, clock: Clock, *, pepper: bytes, kept_s: float) -> None:
        self._store, self._clock, self._pepper = store, clock, pepper
        self._kept_ms = kept_s * 1000
        self._remembered: OrderedDict[str, tuple[Principal, float]] = OrderedDict()
        self._refused: OrderedDict[str, float] = OrderedDict()

    def has_known(self, token: str) -> bool:
        """Whether this token opened lately, as far as is remembered."""
        return token_digest(token, self._pepper) in self._remembered

    async def principal(self, token: str) -> tuple[str, Principal] | None:
        """The digest and the owner of a token; None if nobody has it."""
        digest = token_digest(token, self._pepper)
        found = await self.still(digest)
        named = _TOKEN.fullmatch(token)
        if found is None or named is None:
            return None
        # The digest covers the access key, so this can only differ if the store was tampered with.
        same = hmac.compare_digest(named[1].encode(), found.keypair.access_key.encode())
        return (digest, found) if same else None

    async def still(self, digest: str) -> Principal | None:
        """Whose digest it is by now; None once it was revoked."""
        known = self._remembered.get(digest)
        now_ms = self._clock.monotonic_ms()
        if known is not None and now_ms < known[1]:
            return known[0]
        if now_ms < self._refused.get(digest, 0.0):
            return None
        found = await self._store.read(lambda unit: unit.credentials.find(digest))
        if found is None:
            self._remembered.pop(digest, None)
            self._refuse(digest, now_ms + REFUSED_KEPT_S * 1000)
            return None
        self._remembered[digest] = (found, now_ms + self._kept_ms)
        self._remembered.move_to_end(digest)
        while len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return found

    def _refuse(self, digest: str, until_ms: float) -> None:
        self._refused[digest] = until_ms
        self._refused.move_to_end(digest)
        while len(self._refused) > REMEMBERED_MAX:
            self._refused.popitem(last=False)

    def forget(self, access_key: AccessKey) -> None:
        """Look again at the next request of this key."""
        for digest in [d for d, (found, _) in self._remembered.items() if found.keypair.access_key == access_key]:
            del self._remembered[digest]

    def forget_user(self, name: str) -> None:
        """Look again at the next request of every key of this user."""
        self._refused.clear()  # one of them may be let in again
        for digest in [d for d, (found, _) in self._remembered.items() if found.user.name == name]:
            del self._remembered[digest]


def principal_of(scope: Scope) -> AuthenticatedPrincipal:
    """The authenticated principal of this request. Raises Unauthenticated if there is none."""
    principal = scope.get(PRINCIPAL)
    if not isinstance(principal, AuthenticatedPrincipal):
        raise Unauthenticated
    return principal
