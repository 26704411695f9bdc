"""Repository of credentials: digests of tokens, never the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.tenancy import Keypair, User


@dataclass(frozen=True, slots=True)
class Principal:
    """The keypair and the user that a token authenticates."""

    keypair: Keypair
    user: User


class CredentialRepository(Protocol):
    """Tokens of keypairs, as keyed digests that cannot be used to authenticate."""

    async def put(self, access_key: AccessKey, digest: str) -> None:
        """Set the token digest of a keypair, replacing the previous one.

        Raises ObjectNotFound for an unknown keypair, Conflict for a digest that is in
        use.
        """

    async def find(self, digest: str) -> Principal | None:
        """The principal of a digest; None if unknown, or the keypair is not active."""

    async def remove(self, access_keys: Sequence[AccessKey]) -> None:
        """Revoke the tokens of these keypairs. Unknown ones are ignored."""
