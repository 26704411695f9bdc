"""Encrypts the secret variables of sessions: the store has no readable copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sokovan.domain.errors import SokovanError


class SecretsUnreadable(SokovanError):
    """Stored secrets were encrypted with a key that this server does not have."""

    code = "secrets-unreadable"
    hint = "restore the file secret-keys of the data folder from a backup, or submit the session again"


class SecretBox(Protocol):
    """Seals secrets for one owner; only a box with the same keys opens them again."""

    def seal(self, secrets: Mapping[str, str], *, owner: str) -> str:
        """The secrets as a text that reveals nothing but their size. Never twice the same."""

    def open(self, sealed: str, *, owner: str) -> Mapping[str, str]:
        """The sealed secrets. Raises SecretsUnreadable, also if another owner sealed them."""

    def digest(self, text: str) -> str:
        """A digest of a text with secrets in it, equal for equal texts.

        A guess cannot be tested without the keys.
        """
