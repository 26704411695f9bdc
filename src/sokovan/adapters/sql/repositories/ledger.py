"""The ledger: rows of held slots, and the only function that frees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from sokovan.adapters.sql.repositories.past_usage import held_device, read_device_times, read_usage
from sokovan.adapters.sql.repositories.sessions.session_rows import (
    NO_PORTS,
    ON_AGENT,
    KernelRow,
    SessionRow,
    lock_sessions,
    read_kernels,
)
from sokovan.adapters.sql.repositories.sessions.transitions import (
    Transitions,
    end_by_itself,
    keep_own_exits,
    report_checkpoint,
)
from sokovan.adapters.sql.repositories.usage import UsageDelta, apply_delta
from sokovan.adapters.sql.rows import TEXT
from sokovan.adapters.sql.schema.tables import (
    AGENTS,
    HELD_DEVICES,
    HELD_PORTS,
    HELD_SLOTS,
    KERNELS,
    OWNER_USAGE,
    PAST_USAGE,
    PORT_REST_MS,
    SESSIONS,
    SESSIONS_SLOT,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.errors import StaleVersion
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, FollowUp, FreeProof, KernelStatus, KernelTrigger
from sokovan.domain.owners.past_usage import PastUsage
from sokovan.domain.owners.policy import Scope
from sokovan.domain.records import (
    Change,
    DeviceTimes,
    HeldDevice,
    HeldPort,
    HeldSlot,
    KernelRecord,
    SessionRecord,
)
from sokovan.ports.repositories.ledger import NO_ENDS, PORTS_LISTED_MAX, Checkpoints, OwnEnds, UnprovenFree


class SqlLedger:
    """The ledger on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def free(
        self,
        kernels: Sequence[KernelRecord],
        proof: FreeProof,
        change: Change,
        *,
        known: Mapping[SessionId, SessionRecord] | None = None,
        checkpoints: Checkpoints | None = None,
        ends: OwnEnds = NO_ENDS,
    ) -> Sequence[SessionRecord]:
        """See the port."""
        agents = await self._locked_agents(sorted({one.agent_id for one in kernels if one.agent_id is not None}))
        given = {kernel.kernel_id: kernel for kernel in kernels}
        ids = sorted({kernel.session_id for kernel in kernels})
        sessions = await lock_sessions(self._transaction, ids, known=known, wanted={*given, *ends.completed})
        to_free = [pair for kernel in given.values() if (pair := _to_free(kernel, sessions)) is not None]
        for _, kernel in to_free:
            problem = _proof_problem(kernel, agents.get(kernel.agent_id or ""), proof)
            if problem:
                raise UnprovenFree(kernel=kernel.kernel_id, proof=proof.value, problem=problem)
        transitions = Transitions(self._transaction, change)
        for session, kernel in to_free:
            reported = checkpoints.get(kernel.kernel_id) if checkpoints else None
            if reported is not None:
                report_checkpoint(transitions, session, kernel, reported)
        for session in {one.session_id: one for one, _ in to_free}.values() if ends.exits else ():
            keep_own_exits(session, ends.exits)
            names = [str(one) for one in ends.completed if one in session.kernels]
            if names:
                end_by_itself(transitions, session, names)
        if to_free:
            await self._free_locked(transitions, to_free, given, proof)
        return await transitions.records(sessions.values())

    async def _free_locked(
        self,
        transitions: Transitions,
        to_free: Sequence[tuple[SessionRow, KernelRow]],
        given: Mapping[KernelId, KernelRecord],
        proof: FreeProof,
    ) -> None:
        agents_of: dict[str, str] = {}
        lost_since = {
            str(kernel.kernel_id): since for one, kernel in to_free if (since := _lost_since(one, kernel)) is not None
        }
        leased = any(kernel.host_ports_text != NO_PORTS for _, kernel in to_free)  # before a requeued one loses them
        for session, kernel in to_free:
            agents_of[kernel.kernel_id] = str(kernel.agent_id)
            if session.is_retried:
                transitions.requeue_kernel(session, kernel)
                continue
            if session.goes_on_without(kernel):
                transitions.follow_up_kernel(session, kernel)
                continue
            if kernel.exit_code is None:
                kernel.exit_code = given[kernel.kernel_id].exit_code
            transitions.move_kernel(session, kernel, KernelTrigger.GONE)
        for session in {session.session_id: session for session, _ in to_free}.values():
            if session.is_retried:
                transitions.clear_ranks(session)
            transitions.settle_receipts(session)
            transitions.settle(session, KernelTrigger.REQUEUED if session.is_retried else KernelTrigger.GONE)
        await transitions.write()
        await self._release(to_free, agents_of, proof, lost_since)
        if leased:
            ids = bound_ids(self._transaction, [kernel.kernel_id for _, kernel in to_free])
            statement = _free_ports(self._transaction.postgresql)
            await self._transaction.execute(statement, {**ids, "the_freed_ms": self._transaction.now_ms})

    async def held(self, agent_id: AgentId) -> Sequence[HeldSlot]:
        """See the port."""
        holding = sa.select(KERNELS.c.kernel_id).where(
            ON_AGENT, KERNELS.c.agent_id == agent_id, KERNELS.c.status.in_([status.value for status in HOLDS_SLOTS])
        )
        return await read_held_slots(
            self._transaction, HELD_SLOTS.c.kernel_id.in_(holding), HELD_SLOTS.c.freed_ms.is_(None)
        )

    async def kernels_on(self, agent_id: AgentId) -> Sequence[KernelRecord]:
        """See the port."""
        return await read_kernels(
            self._transaction,
            ON_AGENT,
            KERNELS.c.agent_id == agent_id,
            KERNELS.c.status.in_([status.value for status in HOLDS_SLOTS]),
        )

    async def held_devices(self, agents: Sequence[AgentId] | None = None) -> Sequence[HeldDevice]:
        """See the port."""
        if agents is None:
            return [held_device(row) for row in await self._transaction.fetch(_held_devices())]
        if not agents:
            return []
        bound = bound_ids(self._transaction, agents)
        rows = await self._transaction.fetch(_held_devices_of(self._transaction.postgresql), bound)
        return [held_device(row) for row in rows]

    async def device_times(self, agents: Sequence[AgentId], *, from_ms: int, to_ms: int, most: int) -> DeviceTimes:
        """See the port."""
        return await read_device_times(self._transaction, agents, from_ms=from_ms, to_ms=to_ms, most=most)

    async def held_ports(self, scaling_group: ScalingGroupName, ports: Collection[int]) -> Sequence[HeldPort]:
        """See the port."""
        if not ports:
            return []
        held, rested_ms = HELD_PORTS.c, self._transaction.now_ms - PORT_REST_MS
        statement = (
            sa.select(held.agent_id, held.port, held.freed_ms, KERNELS.c.session_id)
            .join(AGENTS, AGENTS.c.agent_id == held.agent_id)
            .join(KERNELS, KERNELS.c.kernel_id == held.kernel_id)
            .where(AGENTS.c.scaling_group == scaling_group, held.port.in_(sorted(ports)))
            .where(sa.or_(held.freed_ms.is_(None), held.freed_ms > rested_ms))
            .order_by(held.port, held.agent_id)
            .limit(PORTS_LISTED_MAX)
        )
        return [
            HeldPort(
                AgentId(row.agent_id),
                row.port,
                SessionId(row.session_id),
                None if row.freed_ms is None else row.freed_ms + PORT_REST_MS,
            )
            for row in await self._transaction.fetch(statement)
        ]

    async def usage(self, scope: Scope, name: str) -> Mapping[str, int]:
        """See the port."""
        statement = sa.select(OWNER_USAGE.c.slot, OWNER_USAGE.c.used).where(
            OWNER_USAGE.c.scope == scope.value, OWNER_USAGE.c.name == name
        )
        return {row.slot: row.used for row in await self._transaction.fetch(statement) if row.used}

    async def past_usage(
        self, scaling_group: ScalingGroupName | None = None, *, names: Sequence[str] | None = None
    ) -> Sequence[PastUsage]:
        """See the port."""
        where = [] if scaling_group is None else [PAST_USAGE.c.scaling_group == scaling_group]
        if names is not None:
            where.append(PAST_USAGE.c.name.in_(list(names)))
        return await read_usage(self._transaction, *where)

    async def _locked_agents(self, ids: Sequence[str]) -> Mapping[str, sa.Row[Any]]:
        """Lock the agents in the order of their ids; proofs are checked against them."""
        statement = _lock_agents(self._transaction.postgresql)
        rows = await self._transaction.fetch(statement, bound_ids(self._transaction, ids))
        return {row.agent_id: row for row in rows}

    async def _release(
        self,
        freed: Sequence[tuple[SessionRow, KernelRow]],
        agents_of: Mapping[str, str],
        proof: FreeProof,
        lost_since: Mapping[str, int],
    ) -> None:
        ids = bound_ids(self._transaction, [kernel.kernel_id for _, kernel in freed])
        slots, devices = _free_statements(self._transaction.postgresql)
        bound = {**ids, "the_freed_ms": self._transaction.now_ms, "the_proof": proof.value}
        lines = await self._transaction.fetch(slots, bound)
        held: dict[str, dict[str, int]] = {}
        for line in lines:
            held.setdefault(line.kernel_id, {})[line.slot] = line.amount
        delta = UsageDelta()
        by_session: dict[str, Counter[str]] = {session.session_id: Counter() for session, _ in freed}
        for session, kernel in freed:
            amounts = held.get(kernel.kernel_id, {})
            delta.add_kernel(agents_of[kernel.kernel_id], amounts, sign=-1)
            by_session[session.session_id].update(amounts)
            if kernel.kernel_id in lost_since:
                delta.add_lost(session.row, amounts, since_ms=lost_since[kernel.kernel_id])
        for session in {session.session_id: session for session, _ in freed}.values():
            delta.add_owner(session.row, by_session[session.session_id], sign=-1)
            if not session.holds_slots:
                delta.add_owner(session.row, {SESSIONS_SLOT: 1}, sign=-1)
        for device in await self._transaction.fetch(devices, {**ids, "the_freed_ms": self._transaction.now_ms}):
            delta.devices[device.agent_id, device.device_id] -= device.units
        await apply_delta(self._transaction, delta, incarnations={})


def _lost_since(session: SessionRow, kernel: KernelRow) -> int | None:
    """Since when the work of a kernel is lost by an eviction under way that is refunded, if it is."""
    receipt = next((one for one in session.evictions if one.is_open), None)
    if receipt is None or receipt.completed or session.is_done or receipt.for_user == session.row.user:
        return None
    if not receipt.whole and kernel.follow_up is not FollowUp.REQUEUE:
        return None
    return receipt.saved_ms if session.checkpoint is None else max(receipt.saved_ms, session.checkpoint.at_ms)


def _to_free(kernel: KernelRecord, sessions: Mapping[str, SessionRow]) -> tuple[SessionRow, KernelRow] | None:
    """The locked kernel, or None if it is freed already."""
    session = sessions.get(kernel.session_id)
    found = None if session is None else session.kernels.get(kernel.kernel_id)
    if session is None or found is None or (found.agent_id, found.attempt) != (kernel.agent_id, kernel.attempt):
        raise StaleVersion(what="kernel", name=kernel.kernel_id, expected=kernel.status, found="another attempt")
    if found.status is KernelStatus.TERMINATED:
        return None
    return session, found


def _proof_problem(kernel: KernelRow, agent: Any, proof: FreeProof) -> str:
    """Why a proof is invalid; empty if it is valid."""
    if proof is FreeProof.NEVER_SENT:
        return "its creation was requested" if kernel.sent else ""
    if agent is None:
        return "its agent does not exist"
    if proof is FreeProof.AGENT_TOMBSTONE:
        # Only the incarnation that received the create request can know.
        return "" if agent.incarnation == kernel.incarnation else "another incarnation of the agent reports it"
    if proof is FreeProof.INCARNATION_FENCED:
        return "" if agent.incarnation > (kernel.incarnation or 0) else "the agent has not enrolled again"
    return "" if agent.status == AgentStatus.TERMINATED else f"the agent is {agent.status}, not declared gone"


@cache
def _lock_agents(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    return (
        sa.select(AGENTS.c.agent_id, AGENTS.c.incarnation, AGENTS.c.status)
        .where(AGENTS.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)))
        .order_by(AGENTS.c.agent_id)
        .with_for_update()
    )


@cache
def _free_statements(postgresql: bool) -> tuple[Any, Any]:  # noqa: FBT001  # a key of the cache
    wanted = sa.select(ids_table(postgresql).c.id)
    freed = sa.bindparam("the_freed_ms", type_=sa.BigInteger())
    slots = (
        sa.update(HELD_SLOTS)
        .values(freed_ms=freed, proof=sa.bindparam("the_proof", type_=TEXT))
        .where(HELD_SLOTS.c.kernel_id.in_(wanted), HELD_SLOTS.c.freed_ms.is_(None))
        .returning(HELD_SLOTS.c.kernel_id, HELD_SLOTS.c.slot, HELD_SLOTS.c.amount)
    )
    devices = (
        sa.update(HELD_DEVICES)
        .values(freed_ms=freed)
        .where(HELD_DEVICES.c.kernel_id.in_(wanted), HELD_DEVICES.c.freed_ms.is_(None))
        .returning(HELD_DEVICES.c.agent_id, HELD_DEVICES.c.device_id, HELD_DEVICES.c.units)
    )
    return slots, devices


@cache
def _free_ports(postgresql: bool) -> sa.Update:  # noqa: FBT001  # a key of the cache
    return (
        sa.update(HELD_PORTS)
        .values(freed_ms=sa.bindparam("the_freed_ms", type_=sa.BigInteger()))
        .where(HELD_PORTS.c.kernel_id.in_(sa.select(ids_table(postgresql).c.id)), HELD_PORTS.c.freed_ms.is_(None))
    )


async def read_held_slots(transaction: Transaction, *where: sa.ColumnElement[bool]) -> list[HeldSlot]:
    """Lines of held slots, freed ones too, by kernel and slot."""
    statement = sa.select(HELD_SLOTS).where(*where).order_by(HELD_SLOTS.c.kernel_id, HELD_SLOTS.c.slot)
    return [
        HeldSlot(
            kernel_id=KernelId(row.kernel_id),
            agent_id=AgentId(row.agent_id),
            incarnation=row.incarnation,
            slot=row.slot,
            amount=row.amount,
            held_ms=row.held_ms,
            freed_ms=row.freed_ms,
            proof=None if row.proof is None else FreeProof(row.proof),
        )
        for row in await transaction.fetch(statement)
    ]


@cache
def _held_devices() -> sa.Select[Any]:
    held, of = HELD_DEVICES.c, SESSIONS.c
    return (
        sa.select(held.agent_id, held.device_id, held.units, of.session_id, of.name, of.queue, of.user, of.domain)
        .join(KERNELS, KERNELS.c.kernel_id == held.kernel_id)
        .join(SESSIONS, of.session_id == KERNELS.c.session_id)
        .where(held.freed_ms.is_(None))
        .order_by(held.agent_id, held.device_id, held.kernel_id)
    )


@cache
def _held_devices_of(postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    return _held_devices().where(HELD_DEVICES.c.agent_id.in_(sa.select(ids_table(postgresql).c.id)))
