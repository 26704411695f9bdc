"""The latest heartbeats on Valkey: one key per agent, with a time to live."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from sokovan.adapters.valkey.connection import DEADLINE_S, Argument, Link
from sokovan.adapters.valkey.scripts import KEEP_LATEST
from sokovan.domain.ids import AgentId
from sokovan.ports.agent_states import AgentState
from sokovan.ports.events import BusUnavailable

SCAN_AT_ONCE = 1000
# Reading all states takes many requests; together they may take this many deadlines.
FRESH_DEADLINES = 5
DIGITS = 20
MOMENT_WIDTH = 2 * DIGITS

_decoder = msgspec.json.Decoder(AgentState)


def moment(state: AgentState) -> str:
    """A text that sorts like (incarnation, sequence)."""
    return f"{state.incarnation:0{DIGITS}d}{state.sequence:0{DIGITS}d}"


def encoded(state: AgentState) -> bytes:
    """The stored form of a state, which follows its moment."""
    return msgspec.json.encode(state)


def decoded(value: bytes | None) -> AgentState | None:
    """Decode a key's value; None if it is missing or cannot be decoded."""
    if value is None:
        return None
    try:
        return _decoder.decode(value[MOMENT_WIDTH:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class ValkeyAgentStates:
    """The AgentStateCache port on Valkey."""

    def __init__(self, url: str, *, prefix: str = "sokovan", deadline_s: float = DEADLINE_S) -> None:
        self._prefix = f"{prefix}:agent:"
        # Escaped, because SCAN takes a pattern.
        self._pattern = re.sub(r"([*?\[\]^\\])", r"\\\1", self._prefix) + "*"
        self._deadline_s = deadline_s
        self._link = Link(url, deadline_s=deadline_s)

    async def put(self, state: AgentState, *, ttl_s: float) -> bool:
        """Store this state for `ttl_s` unless a later one is known; whether it was stored."""
        arguments: list[Argument] = [moment(state), encoded(state), max(1, round(ttl_s * 1000))]
        try:
            return bool(await self._link.run(KEEP_LATEST, [self._prefix + state.agent_id], arguments))
        except BusUnavailable:
            return False

    async def get(self, agent_id: AgentId) -> AgentState | None:
        """The latest state, or None if it is unknown or stale."""
        try:
            return decoded(await self._link.call("GET", self._prefix + agent_id))
        except BusUnavailable:
            return None

    async def fresh(self) -> Mapping[AgentId, AgentState]:
        """All agents whose state is not stale; none if they cannot all be read."""
        try:
            async with asyncio.timeout(FRESH_DEADLINES * self._deadline_s):
                return await self._all()
        except (BusUnavailable, TimeoutError):
            return {}

    async def drop(self, agent_id: AgentId) -> None:
        """Remove the state of an agent."""
        with suppress(BusUnavailable):
            await self._link.call("DEL", self._prefix + agent_id)

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    async def _all(self) -> dict[AgentId, AgentState]:
        found: dict[AgentId, AgentState] = {}
        cursor: Any = 0
        while True:
            cursor, keys = await self._link.call("SCAN", cursor, "MATCH", self._pattern, "COUNT", SCAN_AT_ONCE)
            values = await self._link.call("MGET", *keys) if keys else []
            states = filter(None, map(decoded, values))
            found.update((state.agent_id, state) for state in states)
            if int(cursor) == 0:
                return found
