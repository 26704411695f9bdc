"""The stored form of an agent's health."""

from sokovan.adapters.sql.repositories.agent_rows import health_of, health_text
from sokovan.domain.cluster.agent_health import HEALTHY, AgentFailure, AgentHealth
from sokovan.domain.ids import SessionId


def test_a_healthy_agent_is_stored_as_nothing() -> None:
    assert health_text(HEALTHY) == "{}"
    assert health_of("{}") is HEALTHY


def test_failures_are_read_as_they_were_written() -> None:
    failure = AgentFailure(SessionId("s1"), "eve", "creation-refused", "no space", 5)
    health = AgentHealth((failure,), failing_ms=6, clean_ms=4, rounds=2, probed_ms=7)
    assert health_of(health_text(health)) == health


def test_fields_that_a_later_release_adds_are_ignored() -> None:
    assert health_of('{"rounds": 1, "mood": "bad"}') == AgentHealth(rounds=1)
