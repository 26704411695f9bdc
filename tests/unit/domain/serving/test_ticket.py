"""Tickets are valid for one port of one attempt of a kernel, at one agent."""

from __future__ import annotations

import pytest

from sokovan.domain.ids import AgentId
from sokovan.domain.serving.ticket import data_key, is_ticket, ticket

KEY = data_key("secret", AgentId("a1"))


def test_a_ticket_is_valid_for_what_it_was_made_for() -> None:
    assert is_ticket(ticket(KEY, "s.0.1", 20_000), KEY, "s.0.1", 20_000)


@pytest.mark.parametrize(
    ("key", "endpoint", "port"),
    [
        (KEY, "s.0.2", 20_000),
        (KEY, "s.1.1", 20_000),
        (KEY, "s.0.1", 20_001),
        (data_key("secret", AgentId("a2")), "s.0.1", 20_000),
        (data_key("other", AgentId("a1")), "s.0.1", 20_000),
        ("", "s.0.1", 20_000),
    ],
)
def test_a_ticket_is_valid_for_nothing_else(key: str, endpoint: str, port: int) -> None:
    assert not is_ticket(ticket(KEY, "s.0.1", 20_000), key, endpoint, port)


def test_without_a_key_no_ticket_is_valid() -> None:
    assert not is_ticket(ticket("", "s.0.1", 20_000), "", "s.0.1", 20_000)
