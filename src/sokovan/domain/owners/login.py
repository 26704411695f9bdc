"""Logins of browsers, and the one-time codes that begin them.

A login has two halves: a cookie, and a proof that pages send in a header. The store has one
digest of both, so neither half alone can be checked, and none can be read from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sokovan.domain.checks import require_int
from sokovan.domain.ids import AccessKey, checked_name

LOGIN_IDLE_MS = 12 * 3600 * 1000
LOGIN_LASTS_MS = 7 * 24 * 3600 * 1000
# The last use is recorded this often at most: a page sends many requests.
LOGIN_USE_MS = 5 * 60 * 1000
LOGIN_CODE_S = 60
# Of one user, at once; of a further one the oldest is ended.
LOGINS_MAX = 20
LOGIN_CODES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A browser that is logged in with a key; it ends with the key."""

    name: str
    access_key: AccessKey
    user: str
    digest: str
    created_ms: int
    used_ms: int
    address: str = ""

    def __post_init__(self) -> None:
        checked_name(self.name, what="login")
        checked_name(self.access_key, what="access key")
        checked_name(self.user, what="user")
        require_int(self.created_ms, what="login", field="created_ms", least=0)
        require_int(self.used_ms, what="login", field="used_ms", least=self.created_ms)

    @property
    def expires_ms(self) -> int:
        """When it ends if it is not used again."""
        return min(self.used_ms + LOGIN_IDLE_MS, self.created_ms + LOGIN_LASTS_MS)

    def is_live(self, now_ms: int) -> bool:
        """Whether it may be used at this time."""
        return now_ms < self.expires_ms

    def used_at(self, now_ms: int) -> Login | None:
        """The login after a use that is worth recording; None if it is not."""
        return replace(self, used_ms=now_ms) if now_ms - self.used_ms >= LOGIN_USE_MS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginCode:
    """The right to log in once, before `expires_ms`; `digest` is that of the code."""

    name: str
    access_key: AccessKey
    user: str
    digest: str
    expires_ms: int

    def __post_init__(self) -> None:
        checked_name(self.name, what="login code")
        checked_name(self.access_key, what="access key")
        checked_name(self.user, what="user")
        require_int(self.expires_ms, what="login code", field="expires_ms", least=0)

    def is_live(self, now_ms: int) -> bool:
        """Whether it may be used at this time."""
        return now_ms < self.expires_ms
