"""Idempotency keys: one request, one session."""

from __future__ import annotations

from typing import Any

import pytest

from sokovan.domain.problems import InvalidRequest
from sokovan.domain.session import Mount, SessionType
from sokovan.orchestrator.sessions.intake.request_keys import KEY_MAX, request_key
from sokovan.orchestrator.sessions.intake.requests import KernelGroupRequest
from tests.unit.orchestrator.sessions.little_controller import ALICE, BOB, asking


def test_equal_requests_have_equal_digests_whatever_the_order_of_their_keys() -> None:
    one = request_key(asking(environment={"A": "1", "B": "2"}), ALICE, "k")
    other = request_key(asking(environment={"B": "2", "A": "1"}), ALICE, "k")

    assert one == other


@pytest.mark.parametrize(
    "options",
    [
        {"name": "x"},
        {"command": ("echo", "hello", "")},
        {"size": 2},
        {"priority": 1},
        {"resources": {"cpu": 1}},
        {"resources": {"cpu": 0.5}},
        {"session_type": SessionType.INTERACTIVE},
        {"mounts": (Mount("/a", "/b"),)},
        {"groups": (KernelGroupRequest(name="a"),)},
        {"depends_on": ("s",)},
    ],
)
def test_another_request_has_another_digest(options: dict[str, Any]) -> None:
    assert request_key(asking(**options), ALICE, "k").digest != request_key(asking(), ALICE, "k").digest


def test_a_key_belongs_to_the_keypair_it_came_with() -> None:
    assert request_key(asking(), ALICE, "k").scope == "AKALICE"
    assert request_key(asking(), BOB, "k").scope == "AKBOB"


@pytest.mark.parametrize("key", ["", "x" * (KEY_MAX + 1), "a\nb", "a\0", "ключ"])
def test_a_key_that_could_not_stand_in_a_header_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        request_key(asking(), ALICE, key)
