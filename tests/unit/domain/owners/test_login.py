"""How long a login lasts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.domain.ids import AccessKey
from sokovan.domain.owners.login import LOGIN_IDLE_MS, LOGIN_LASTS_MS, LOGIN_USE_MS, Login, LoginCode

LOGIN = Login(name="LI-1", access_key=AccessKey("AK-1"), user="ada", digest="d", created_ms=1000, used_ms=1000)
CODE = LoginCode(name="LC-1", access_key=AccessKey("AK-1"), user="ada", digest="d", expires_ms=1000)


def test_a_login_that_is_not_used_ends() -> None:
    assert LOGIN.is_live(1000 + LOGIN_IDLE_MS - 1)
    assert not LOGIN.is_live(1000 + LOGIN_IDLE_MS)


def test_a_login_in_use_ends_after_its_longest_time() -> None:
    used = replace(LOGIN, used_ms=1000 + LOGIN_LASTS_MS - 1)
    assert used.is_live(1000 + LOGIN_LASTS_MS - 1)
    assert not used.is_live(1000 + LOGIN_LASTS_MS)


def test_a_use_is_recorded_now_and_then_only() -> None:
    assert LOGIN.used_at(1000 + LOGIN_USE_MS - 1) is None
    assert LOGIN.used_at(1000 + LOGIN_USE_MS) == replace(LOGIN, used_ms=1000 + LOGIN_USE_MS)


def test_a_code_is_late_at_its_end() -> None:
    assert CODE.is_live(999)
    assert not CODE.is_live(1000)


@pytest.mark.parametrize("change", [{"name": "a b"}, {"used_ms": 1}, {"user": ""}, {"access_key": ""}])
def test_a_wrong_value_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(LOGIN, **change)  # type: ignore[arg-type]  # deliberately wrong
