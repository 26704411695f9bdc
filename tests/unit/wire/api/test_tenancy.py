"""Owners and keys on the wire."""

from __future__ import annotations

from dataclasses import fields

from sokovan.wire.api.tenancy import KeyView, NewKeyView, PolicyBody, UserBody
from tests.unit.wire.api.bodies import read_by_both, refused


def test_a_user_has_a_known_role() -> None:
    assert read_by_both(UserBody, {"name": "kim", "domain": "lab", "role": "domain-admin"}).role == "domain-admin"
    assert "role" in refused(UserBody, {"name": "kim", "domain": "lab", "role": "root"})


def test_a_key_that_is_listed_has_no_place_for_its_token() -> None:
    assert "token" not in {field.name for field in fields(KeyView)}
    assert "token" in {field.name for field in fields(NewKeyView)}


def test_a_policy_limits_what_it_names_and_nothing_else() -> None:
    policy = read_by_both(PolicyBody, {"name": "small", "slots_max": {"gpu": 8}})
    assert policy.sessions_max is None
    assert "max_slots" in refused(PolicyBody, {"name": "small", "max_slots": {}})
