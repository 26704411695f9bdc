"""Settings of the API."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.api.settings import LOOPBACK, PEPPER_BYTES_MIN, ApiSettings
from sokovan.domain.errors import InvalidSpec

GOOD: dict[str, Any] = {"pepper": b"x" * 32}


def test_the_pepper_is_in_no_printed_form() -> None:
    settings = ApiSettings(pepper=b"verysecretpepper" * 2)
    assert "verysecret" not in f"{settings!r} {settings}"


def test_without_a_choice_only_loopback_is_answered_to() -> None:
    assert ApiSettings(pepper=b"x" * 32).allowed_hosts == LOOPBACK


def test_a_short_pepper_is_refused_and_not_quoted() -> None:
    with pytest.raises(InvalidSpec) as refused:
        ApiSettings(pepper=b"topsecret")
    assert "topsecret" not in str(refused.value)
    assert str(PEPPER_BYTES_MIN) in refused.value.problem


@pytest.mark.parametrize("name", ["body_bytes_max", "requests_per_s", "requests_burst", "failures_per_minute"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidSpec, match=name):
        ApiSettings(**{**GOOD, name: 0})


def test_a_revoked_key_is_found_out_within_five_seconds_by_default() -> None:
    settings = ApiSettings(pepper=b"x" * 32)
    assert settings.principal_kept_s + settings.streams.recheck_s < 5


def test_several_processes_have_a_part_of_each_limit_of_users() -> None:
    whole = ApiSettings(pepper=b"p" * 32, requests_per_s=10, failures_per_minute=10, reads_at_once=2)
    part = whole.shared_by(4, process="api-1")
    assert (part.requests_per_s, part.failures_per_minute, part.reads_at_once) == (3, 3, 1)
    assert part.streams.streams_per_user_max == whole.streams.streams_per_user_max // 4
    assert (part.process, part.body_bytes_max) == ("api-1", whole.body_bytes_max)
