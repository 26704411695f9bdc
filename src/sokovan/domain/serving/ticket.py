"""Tickets, which let a proxy reach the port of one kernel through its agent.

A manager derives a key for each agent and sends it. A ticket is made of that key, so that an
agent can check it without a record of it, also after a restart.
"""

from __future__ import annotations

import hashlib
import hmac

from sokovan.domain.ids import AgentId


def data_key(secret: str, agent_id: AgentId) -> str:
    """The key of an agent's tickets; `secret` is known to managers only."""
    return _digest(secret, f"data of agent {agent_id}")


def ticket(key: str, endpoint_id: str, port: int) -> str:
    """The ticket for the port of a kernel in one attempt."""
    return _digest(key, f"{endpoint_id} {port}")


def is_ticket(given: str, key: str, endpoint_id: str, port: int) -> bool:
    """Whether a ticket is valid for this port; compared in constant time."""
    return bool(key) and hmac.compare_digest(given.encode(), ticket(key, endpoint_id, port).encode())


def _digest(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
