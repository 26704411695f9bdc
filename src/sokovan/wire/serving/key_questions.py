"""The question of a proxy about a key that is not in its table, and the answer.

Sent by `POST /api/v1/serving/keys`: keys of users are in no table, and an endpoint token
that was just created is not in it yet.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from sokovan.wire.serving.route_table import KeyEntry

KEYS_PATH = "/api/v1/serving/keys"
KEY_CHARACTERS_MAX = 300


class KeyQuestion(Struct, frozen=True):
    """A key that a client sent."""

    key: Annotated[str, Meta(min_length=1, max_length=KEY_CHARACTERS_MAX, pattern=r"^[!-~]+\Z")]


class KeyAnswer(Struct, frozen=True, omit_defaults=True):
    """The entry of the key; None if it is unknown, expired or revoked."""

    entry: KeyEntry | None = None
