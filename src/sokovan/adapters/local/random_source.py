"""Random values from the operating system's secure source."""

from __future__ import annotations

import secrets


def secret_text(size: int = 32) -> str:
    """A URL-safe text of `size` random bytes."""
    return secrets.token_urlsafe(size)


def fraction() -> float:
    """A random number in [0, 1)."""
    return secrets.randbits(53) / (1 << 53)


def number() -> int:
    """A random 64-bit number."""
    return secrets.randbits(64)
