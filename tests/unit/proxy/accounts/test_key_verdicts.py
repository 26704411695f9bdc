"""Keys outside the table: asked about once, trusted for seconds, kept while the manager is away."""

from __future__ import annotations

import pytest

from sokovan.proxy.accounts.key_verdicts import (
    AWAY_MS,
    FRESH_MS,
    INVALID,
    KEPT_MAX,
    QUESTIONS_PER_MINUTE,
    REFUSED_MS,
    TOO_MANY,
    UNCHECKED,
    USED_MS,
    KeyVerdicts,
    UnknownKey,
)
from sokovan.wire.serving.route_table import KeyEntry

USER_KEY = b"sk-abc." + b"x" * 43
TOKEN = b"ske_" + b"y" * 43
ENTRY = KeyEntry(key_id="key:abc", digest="0" * 64, kind="user", owner="ada")


def test_a_key_is_asked_about_and_then_used() -> None:
    verdicts = KeyVerdicts(has_manager=True)
    assert verdicts.find(USER_KEY, 0) == UnknownKey(USER_KEY)
    verdicts.answered(USER_KEY, ENTRY, 0)

    assert verdicts.find(USER_KEY, FRESH_MS) is ENTRY
    assert (verdicts.is_fresh(USER_KEY, FRESH_MS - 1), verdicts.is_fresh(USER_KEY, FRESH_MS)) == (True, False)
    assert verdicts.find(USER_KEY, USED_MS) == UnknownKey(USER_KEY), "a revoked key is refused within seconds"


def test_an_unknown_key_is_refused_and_asked_about_again_soon() -> None:
    verdicts = KeyVerdicts(has_manager=True)
    verdicts.answered(TOKEN, None, 0)

    assert verdicts.find(TOKEN, REFUSED_MS - 1) is INVALID
    assert verdicts.find(TOKEN, REFUSED_MS) == UnknownKey(TOKEN)


@pytest.mark.parametrize("secret", [b"", b"sk-", b"ske_short", b"sk-abc." + b"x" * 44, b"ske_" + b"\xff" * 43])
def test_a_malformed_key_is_refused_without_a_question(secret: bytes) -> None:
    assert KeyVerdicts(has_manager=True).find(secret, 0) is INVALID


def test_without_a_manager_nobody_is_asked() -> None:
    assert KeyVerdicts().find(USER_KEY, 0) is INVALID


def test_a_confirmed_key_works_while_the_manager_is_away_for_a_bounded_time() -> None:
    verdicts = KeyVerdicts(has_manager=True)
    verdicts.answered(USER_KEY, ENTRY, 0)
    verdicts.unanswered(USER_KEY, AWAY_MS - 1)
    assert verdicts.find(USER_KEY, AWAY_MS) is ENTRY

    verdicts.unanswered(USER_KEY, AWAY_MS)
    assert verdicts.find(USER_KEY, AWAY_MS) is UNCHECKED


def test_a_key_that_was_never_confirmed_is_refused_while_the_manager_is_away() -> None:
    verdicts = KeyVerdicts(has_manager=True)
    for secret in (USER_KEY, TOKEN):
        verdicts.unanswered(secret, 0)

    assert verdicts.find(USER_KEY, 1) is UNCHECKED
    assert verdicts.find(TOKEN, 1) is INVALID


def test_guesses_are_limited_and_leave_confirmed_keys_alone() -> None:
    verdicts = KeyVerdicts(has_manager=True)
    verdicts.answered(USER_KEY, ENTRY, 0)
    guesses = [verdicts.find(b"ske_%043d" % number, 0) for number in range(QUESTIONS_PER_MINUTE + 1)]

    assert guesses[-1] is TOO_MANY
    assert all(isinstance(one, UnknownKey) for one in guesses[:-1])
    assert verdicts.find(USER_KEY, USED_MS) == UnknownKey(USER_KEY)


def test_a_bounded_number_of_verdicts_is_kept() -> None:
    verdicts = KeyVerdicts(has_manager=True)
    for number in range(KEPT_MAX + 1):
        verdicts.answered(b"ske_%043d" % number, None, 0)

    assert isinstance(verdicts.find(b"ske_%043d" % 0, 0), UnknownKey)
    assert verdicts.find(b"ske_%043d" % KEPT_MAX, 0) is INVALID
