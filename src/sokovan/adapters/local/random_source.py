"""Chance of the operating system: secrets that nobody can guess, and moments."""

from __future__ import annotations

import secrets


def secret_text(size: int = 32) -> str:
    """A text of `size` random bytes, in letters that a URL and a header can carry."""
    return secrets.token_urlsafe(size)


def fraction() -> float:
    """A number from 0 up to 1."""
    return secrets.randbits(53) / (1 << 53)


def number() -> int:
    """A number that nobody can guess."""
    return secrets.randbits(64)
