"""What proves who calls: digests of tokens, never the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.ids import AccessKey
from sokovan.domain.tenancy import Keypair, User


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a token belongs to."""

    keypair: Keypair
    user: User


class CredentialRepository(Protocol):
    """Tokens of keypairs, as keyed digests: a copy of the store opens nothing."""

    async def put(self, access_key: AccessKey, digest: str) -> None:
        """Let this digest stand for a keypair, in the place of the one before.

        Raises NotFound for an unknown keypair, Conflict for a digest that is taken.
        """

    async def find(self, digest: str) -> Principal | None:
        """Whose digest it is; None for nobody's, and for a keypair that is not active."""

    async def remove(self, access_keys: Sequence[AccessKey]) -> None:
        """These keypairs open nothing any more. Unknown ones are passed over."""
