"""Agent repository on SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from sokovan.adapters.sql.repositories import history
from sokovan.adapters.sql.repositories.agent_enrolment import attributes, enrol_new, images_text
from sokovan.adapters.sql.repositories.agent_rows import agent_info, health_of, health_text, releasing_kernels
from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows
from sokovan.adapters.sql.schema.tables import (
    AGENT_DEVICES,
    AGENT_SLOTS,
    AGENTS,
    HELD_SLOTS,
    KERNELS,
    SCALING_GROUPS,
)
from sokovan.adapters.sql.transaction import Transaction, bound_ids, ids_table
from sokovan.domain.cluster.agent import ISOLATION_LABEL, NOT_ISOLATED, RUNTIME_LABEL, RUNTIMES, AgentInfo
from sokovan.domain.cluster.agent_health import AgentHealth
from sokovan.domain.errors import Conflict, ObjectNotFound, StaleVersion
from sokovan.domain.events import AgentEnrolled, AgentMoved
from sokovan.domain.ids import AgentId, KernelId, is_name
from sokovan.domain.lifecycle.agent import AGENT, SCHEDULABLE, AgentStatus, AgentTrigger
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS
from sokovan.domain.records import AgentRecord, Change, Device, HistoryEntry
from sokovan.ports.repositories.agents import AgentProfile, NewAgent, SlotRoom

MEMORY = "mem"
_RUNTIME_ROW = "(runtime)"

_AGENT = sa.select(AGENTS).where(AGENTS.c.agent_id == sa.bindparam("the_agent"))
_LOCK_AGENT = _AGENT.with_for_update()
_USED_SLOTS = sa.select(AGENT_SLOTS.c.slot, AGENT_SLOTS.c.used).where(
    AGENT_SLOTS.c.agent_id == sa.bindparam("the_agent")
)
_DEVICES = sa.select(AGENT_DEVICES).where(AGENT_DEVICES.c.agent_id == sa.bindparam("the_agent"))


class SqlAgents:
    """Agents on SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def enrol_new(self, agents: Sequence[NewAgent]) -> bool:
        """See the port."""
        return await enrol_new(self._transaction, agents)

    async def enrol(
        self,
        info: AgentInfo,
        change: Change,
        *,
        devices: Sequence[Device] = (),
        adopted: Sequence[tuple[KernelId, int]] = (),
    ) -> AgentRecord:
        """See the port."""
        group = sa.select(SCALING_GROUPS.c.name).where(SCALING_GROUPS.c.name == info.scaling_group)
        if await self._transaction.first(group) is None:
            raise ObjectNotFound(what="scaling group", name=info.scaling_group)
        known = await self._locked(info.agent_id) or await self._join_or_lock(info, change)
        if known is not None:
            await self._rejoin(known, info, change)
        await self._set_slots(info)
        await self._set_devices(info.agent_id, devices)
        record = await self.get(info.agent_id)
        await self._adopt(record.info, adopted)
        self._transaction.events.append(
            AgentEnrolled(at_ms=self._transaction.now_ms, agent_id=info.agent_id, incarnation=record.info.incarnation)
        )
        return record

    async def get(self, agent_id: AgentId) -> AgentRecord:
        """See the port."""
        # Invalid names are not queried: PostgreSQL rejects some strings.
        records = await self._records(_AGENT, {"the_agent": agent_id}) if is_name(agent_id) else []
        if not records:
            raise ObjectNotFound(what="agent", name=agent_id)
        return records[0]

    async def all(
        self,
        *,
        scaling_group: str = "",
        after: str = "",
        limit: int | None = None,
        named: Sequence[AgentId] | None = None,
        known: Mapping[AgentId, AgentRecord] | None = None,
    ) -> Sequence[AgentRecord]:
        """See the port."""
        if named is not None:
            # Invalid names are not queried, as in `get`.
            bound = bound_ids(self._transaction, [agent_id for agent_id in named if is_name(agent_id)])
            return (await self._records(_of_agents(AGENTS, self._transaction.postgresql), bound))[:limit]
        statement = sa.select(AGENTS).order_by(AGENTS.c.agent_id).limit(limit)
        if scaling_group:
            statement = statement.where(AGENTS.c.scaling_group == scaling_group)
        if after:
            statement = statement.where(AGENTS.c.agent_id > after)
        return await (self._changed(statement, known) if known else self._records(statement))

    async def _changed(self, statement: sa.Select[Any], known: Mapping[AgentId, AgentRecord]) -> Sequence[AgentRecord]:
        """The agents of a statement, those with the stamp of a known record as they are."""
        stamps = await self._transaction.fetch(statement.with_only_columns(AGENTS.c.agent_id, AGENTS.c.stamp))
        found = {row.agent_id: known.get(row.agent_id) for row in stamps}
        stale = [row.agent_id for row in stamps if (one := found[row.agent_id]) is None or one.stamp != row.stamp]
        if stale:
            chosen = _of_agents(AGENTS, self._transaction.postgresql)
            fresh = await self._records(chosen, bound_ids(self._transaction, stale))
            found.update({one.info.agent_id: one for one in fresh})
        return [one for one in found.values() if one is not None]

    async def profiles(self) -> Mapping[str, AgentProfile]:
        """See the port."""
        architectures: dict[str, dict[str, int]] = {}
        slots: dict[str, set[str]] = {}
        memory: dict[str, dict[str, dict[int, int]]] = {}
        open_groups: set[str] = set()
        runtimes: dict[str, set[str]] = {}
        for row in await self._transaction.fetch(_makeup()):
            if row.slot == _RUNTIME_ROW:
                runtimes.setdefault(row.scaling_group, set()).add(row.architecture)
                continue
            if row.slot is None:
                architectures.setdefault(row.scaling_group, {})[row.architecture] = row.n
                open_groups |= {row.scaling_group} if row.memory else set()
                continue
            slots.setdefault(row.scaling_group, set()).add(row.slot)
            if row.slot != MEMORY and row.memory is not None:
                memory.setdefault(row.scaling_group, {}).setdefault(row.slot, {})[row.n] = row.memory
        return {
            group: AgentProfile(
                found,
                frozenset(slots.get(group, ())),
                memory.get(group, {}),
                open=group in open_groups,
                runtimes=frozenset(runtimes.get(group, ())),
            )
            for group, found in architectures.items()
        }

    async def rooms(self) -> Mapping[tuple[str, str], Mapping[str, SlotRoom]]:
        """See the port."""
        found: dict[tuple[str, str], dict[str, SlotRoom]] = {}
        for row in await self._transaction.fetch(_rooms()):
            slots = found.setdefault((row.scaling_group, row.architecture), {})
            slots[row.slot] = SlotRoom(int(row.free), row.most_free, row.most)
        return found

    async def move(self, agent: AgentRecord, trigger: AgentTrigger, change: Change) -> AgentRecord:
        """See the port."""
        agent_id = agent.info.agent_id
        row = await self._locked(agent_id)
        if row is None:
            raise ObjectNotFound(what="agent", name=agent_id)
        if (row.version, row.status) != (agent.version, agent.info.status.value):
            raise StaleVersion(
                what="agent",
                name=agent_id,
                expected=f"{agent.info.status} (version {agent.version})",
                found=f"{row.status} (version {row.version})",
            )
        if trigger is AgentTrigger.LEFT and row.kernel_count:
            # Its kernels may outlive the agent process; only an operator can declare the machine gone.
            raise Conflict(
                f"agent {agent_id!r} still has {row.kernel_count} kernels",
                hint="drain it and wait for them to end, or declare the agent gone",
            )
        await self._move(row, trigger, change)
        return await self.get(agent_id)

    async def set_health(self, agent: AgentRecord, health: AgentHealth, change: Change | None = None) -> AgentRecord:
        """See the port."""
        agent_id = agent.info.agent_id
        if change is not None:
            await history.note(self._transaction, AGENT, AGENTS, ids=[agent_id], change=change)
        row = await self._locked(agent_id)
        if row is None:
            raise ObjectNotFound(what="agent", name=agent_id)
        # Other writes raise the version, too; what must not have changed is the health.
        if health_of(row.health) != agent.info.health:
            raise StaleVersion(what="agent", name=agent_id, expected=health_text(agent.info.health), found=row.health)
        await self._apply_faults(agent_id, before=set(dict(agent.info.health.faults)), after=set(dict(health.faults)))
        await self._transaction.execute(
            sa.update(AGENTS)
            .where(AGENTS.c.agent_id == agent_id)
            .values(health=health_text(health), version=AGENTS.c.version + 1, stamp=self._transaction.stamp)
        )
        return await self.get(agent_id)

    async def _apply_faults(self, agent_id: AgentId, *, before: set[str], after: set[str]) -> None:
        """Take devices out of scheduling, and return others to it; kernels on them go on.

        The capacity counts what kernels hold of absent devices until it is freed. An agent that
        reported less of a slot than its devices have keeps that.
        """
        if before == after:
            return
        was: dict[str, int] = {}
        now: dict[str, int] = {}
        held: dict[str, int] = {}
        mine = AGENT_DEVICES.c.agent_id == agent_id
        for row in await self._transaction.fetch(_DEVICES, {"the_agent": agent_id}):
            is_present = row.device_id not in after and (row.present or row.device_id in before)
            was[row.slot] = was.get(row.slot, 0) + (row.units if row.present else 0)
            now[row.slot] = now.get(row.slot, 0) + (row.units if is_present else 0)
            held[row.slot] = held.get(row.slot, 0) + (0 if is_present else row.used)
            if is_present != row.present:
                update = sa.update(AGENT_DEVICES).where(mine, AGENT_DEVICES.c.device_id == row.device_id)
                await self._transaction.execute(update.values(present=is_present))
        for slot in sorted(now):
            whole = now[slot] + held[slot]
            capacity = sa.case((AGENT_SLOTS.c.used > whole, AGENT_SLOTS.c.used), else_=whole)
            await self._transaction.execute(
                sa.update(AGENT_SLOTS)
                .where(AGENT_SLOTS.c.agent_id == agent_id, AGENT_SLOTS.c.slot == slot)
                .where(AGENT_SLOTS.c.reported == was[slot])
                .values(reported=now[slot], capacity=capacity)
            )

    async def add_images(self, agent_id: AgentId, incarnation: int, images: Collection[str]) -> None:
        """See the port."""
        row = await self._locked(agent_id)
        if row is None or row.incarnation != incarnation:
            return
        known = set(msgspec.json.decode(row.cached_images))
        if set(images) <= known:
            return
        await self._transaction.execute(
            sa.update(AGENTS)
            .where(AGENTS.c.agent_id == agent_id)
            .values(cached_images=images_text(known | set(images)), stamp=self._transaction.stamp)
        )

    async def history(self, agent_id: AgentId) -> Sequence[HistoryEntry]:
        """See the port."""
        return await history.read_history(self._transaction, AGENT.name, agent_id)

    async def _locked(self, agent_id: AgentId) -> sa.Row[Any] | None:
        return await self._transaction.first(_LOCK_AGENT, {"the_agent": agent_id})

    async def _join_or_lock(self, info: AgentInfo, change: Change) -> sa.Row[Any] | None:
        """Insert the agent; returns its locked row if a concurrent transaction inserted it first."""
        try:
            async with self._transaction.savepoint():
                await self._join(info, change)
        except sa.exc.IntegrityError:
            return await self._locked(info.agent_id)
        return None

    async def _join(self, info: AgentInfo, change: Change) -> None:
        entry = history.HistoryRow(info.agent_id, 1, None, AGENT.initial.value, "enrolled")
        await history.append(self._transaction, AGENT.name, [entry], change)
        started = {"status": AGENT.initial.value, "version": 1, "history_sequence": 1, "incarnation": 1}
        values = {**attributes(info), **started, "draining": False, "kernel_count": 0, **self._enrolment_columns()}
        await self._transaction.execute(sa.insert(AGENTS), {"agent_id": info.agent_id, **values})

    async def _rejoin(self, known: sa.Row[Any], info: AgentInfo, change: Change) -> None:
        """Begin a new incarnation; messages of and to earlier ones are ignored."""
        if known.status == AgentStatus.TERMINATED:
            raise Conflict(
                f"agent {info.agent_id!r} has been removed",
                hint="enrol the machine under a new name, or with a new agent id",
            )
        back = {
            AgentStatus.SUSPECT: AgentTrigger.HEARTBEAT_RESUMED,
            AgentStatus.LOST: AgentTrigger.REJOINED_DRAINING if known.draining else AgentTrigger.REJOINED,
        }.get(AgentStatus(known.status))
        if back is not None:
            await self._move(known, back, change)
        statement = sa.update(AGENTS).where(AGENTS.c.agent_id == info.agent_id)
        await self._transaction.execute(
            statement.values(
                **attributes(info),
                **self._enrolment_columns(),
                # Its devices are those that it reports now; faults follow with a heartbeat.
                health=health_text(health_of(known.health).with_faults({})),
                incarnation=AGENTS.c.incarnation + 1,
                version=AGENTS.c.version + 1,
            )
        )

    async def _move(self, row: sa.Row[Any], trigger: AgentTrigger, change: Change) -> None:
        before = AgentStatus(row.status)
        after = AGENT.after(before, trigger, by=change.by)
        entry = history.HistoryRow(row.agent_id, row.history_sequence + 1, before.value, after.value, trigger.value)
        await history.append(self._transaction, AGENT.name, [entry], change)
        # A lost agent that was being drained rejoins as draining, as the operator requested.
        draining = row.draining if after is AgentStatus.LOST else after is AgentStatus.DRAINING
        await self._transaction.execute(
            sa.update(AGENTS)
            .where(AGENTS.c.agent_id == row.agent_id, AGENTS.c.version == row.version)
            .values(
                status=after.value,
                version=AGENTS.c.version + 1,
                history_sequence=row.history_sequence + 1,
                draining=draining,
                stamp=self._transaction.stamp,
            )
        )
        self._transaction.events.append(
            AgentMoved(
                at_ms=self._transaction.now_ms,
                agent_id=AgentId(row.agent_id),
                incarnation=row.incarnation,
                before=before,
                after=after,
                trigger=trigger.value,
            )
        )

    async def _adopt(self, info: AgentInfo, adopted: Sequence[tuple[KernelId, int]]) -> None:
        """Move kernels that the agent found running to its new incarnation."""
        if not adopted:
            return
        rows = Rows("adopted", {"id": TEXT, "attempt": WHOLE}, postgresql=self._transaction.postgresql)
        mine = sa.and_(
            KERNELS.c.kernel_id == rows.c.id,
            KERNELS.c.attempt == rows.c.attempt,
            KERNELS.c.agent_id == info.agent_id,
            KERNELS.c.status.in_([status.value for status in HOLDS_SLOTS]),
        )
        taken_over = await self._transaction.fetch(
            sa.update(KERNELS)
            .values(incarnation=info.incarnation, version=KERNELS.c.version + 1)
            .where(mine)
            .returning(KERNELS.c.kernel_id),
            rows.bind(adopted),
        )
        wanted = sa.select(ids_table(self._transaction.postgresql).c.id)
        await self._transaction.execute(
            sa.update(HELD_SLOTS)
            .values(incarnation=info.incarnation)
            .where(HELD_SLOTS.c.kernel_id.in_(wanted), HELD_SLOTS.c.freed_ms.is_(None)),
            bound_ids(self._transaction, [row.kernel_id for row in taken_over]),
        )

    async def _set_slots(self, info: AgentInfo) -> None:
        """Set capacities as reported, but not below what is in use."""
        known = {row.slot: row.used for row in await self._transaction.fetch(_USED_SLOTS, {"the_agent": info.agent_id})}
        rows = Rows(
            "reported", {"slot": TEXT, "capacity": WHOLE, "reported": WHOLE}, postgresql=self._transaction.postgresql
        )
        values = [
            (slot, max(info.available_slots[slot], known.get(slot, 0)), info.available_slots[slot])
            for slot in sorted({*known, *info.available_slots})
        ]
        update = (
            sa.update(AGENT_SLOTS)
            .where(AGENT_SLOTS.c.agent_id == info.agent_id, AGENT_SLOTS.c.slot == rows.c.slot)
            .values(capacity=rows.c.capacity, reported=rows.c.reported)
        )
        await self._transaction.execute(update, rows.bind([value for value in values if value[0] in known]))
        fresh = [
            {"agent_id": info.agent_id, "slot": slot, "capacity": capacity, "reported": reported, "used": 0}
            for slot, capacity, reported in values
            if slot not in known
        ]
        if fresh:
            await self._transaction.execute(sa.insert(AGENT_SLOTS), fresh)

    async def _set_devices(self, agent_id: AgentId, devices: Sequence[Device]) -> None:
        """Update the devices; removed ones keep their row and are not allocated again."""
        mine = AGENT_DEVICES.c.agent_id == agent_id
        known = {row.device_id: row for row in await self._transaction.fetch(_DEVICES, {"the_agent": agent_id})}
        named = {device.device_id: device for device in devices}
        await self._transaction.execute(
            sa.update(AGENT_DEVICES).where(mine).values(present=AGENT_DEVICES.c.device_id.in_(list(named)))
        )
        for device_id in sorted(set(known) & set(named)):
            # A device in use keeps slot and units: an exclusive one must not become shared.
            await self._transaction.execute(
                sa.update(AGENT_DEVICES)
                .where(mine, AGENT_DEVICES.c.device_id == device_id, AGENT_DEVICES.c.used == 0)
                .values(slot=named[device_id].slot, units=named[device_id].units)
            )
        fresh = [
            {"agent_id": agent_id, "device_id": one.device_id, "slot": one.slot, "units": one.units}
            for one in devices
            if one.device_id not in known
        ]
        if fresh:
            await self._transaction.execute(
                sa.insert(AGENT_DEVICES), [{**row, "used": 0, "present": True} for row in fresh]
            )

    async def _records(
        self, statement: sa.Select[Any], parameters: Mapping[str, Any] | None = None
    ) -> list[AgentRecord]:
        rows = await self._transaction.fetch(statement, parameters)
        ids = [row.agent_id for row in rows]
        bound = bound_ids(self._transaction, ids)
        slots: dict[str, list[sa.Row[Any]]] = {agent_id: [] for agent_id in ids}
        for row in await self._transaction.fetch(_of_agents(AGENT_SLOTS, self._transaction.postgresql), bound):
            slots[row.agent_id].append(row)
        devices: dict[str, list[Device]] = {agent_id: [] for agent_id in ids}
        faults = {row.agent_id: dict(health_of(row.health).faults) for row in rows}
        for row in await self._transaction.fetch(_of_agents(AGENT_DEVICES, self._transaction.postgresql), bound):
            fault = faults[row.agent_id].get(row.device_id, "")
            if row.present or fault:
                devices[row.agent_id].append(Device(row.device_id, row.slot, row.units, fault))
        releasing = await releasing_kernels(self._transaction, ids)
        return [
            AgentRecord(
                info=agent_info(row, slots[row.agent_id], releasing.get(row.agent_id, ())),
                version=row.version,
                devices=tuple(devices[row.agent_id]),
                reported_labels=msgspec.json.decode(row.labels),
                operator_labels=msgspec.json.decode(row.operator_labels),
                stamp=row.stamp,
            )
            for row in rows
        ]

    def _enrolment_columns(self) -> dict[str, int]:
        return {"enrolled_ms": self._transaction.now_ms, "stamp": self._transaction.stamp}


def _makeup() -> sa.CompoundSelect[Any]:
    """Counts agents by architecture, and lists the amounts that agents have of each slot.

    With each amount, the least memory of these agents. Memory itself is one row: its
    amounts are as many as there are agents. With each architecture, in place of the memory,
    how many of the agents do not isolate their kernels. With the name _RUNTIME_ROW in place
    of a slot, the runtimes that agents report.
    """
    not_terminated = AGENTS.c.status != AgentStatus.TERMINATED.value
    group, architecture = AGENTS.c.scaling_group, AGENTS.c.architecture
    no_slot, nothing = sa.cast(sa.null(), TEXT).label("slot"), sa.cast(sa.null(), TEXT).label("architecture")
    # Quotes inside of a value are escaped: the text is a label, and never a part of a value.
    is_open = AGENTS.c.labels.contains(f'"{ISOLATION_LABEL}":"{NOT_ISOLATED}"', autoescape=True)
    open_count = sa.func.sum(sa.case((is_open, 1), else_=0)).label("memory")
    counted = sa.select(group, architecture, no_slot, sa.func.count().label("n"), open_count).where(not_terminated)
    slot, memory = AGENT_SLOTS.alias("held"), AGENT_SLOTS.alias("memory")
    # Literals: PostgreSQL takes an expression with parameters for another one when it groups by it.
    is_memory = slot.c.slot == sa.literal_column(f"'{MEMORY}'")
    amount = sa.case((is_memory, sa.literal_column("0", WHOLE)), else_=slot.c.capacity)
    usable = sa.case((AGENTS.c.status.in_([status.value for status in SCHEDULABLE]), memory.c.capacity))
    least = sa.func.coalesce(sa.func.min(usable), sa.func.min(memory.c.capacity))
    held = (
        sa.select(group, nothing, slot.c.slot, amount.label("n"), least.label("memory"))
        .join(slot, slot.c.agent_id == AGENTS.c.agent_id)
        .outerjoin(memory, sa.and_(memory.c.agent_id == AGENTS.c.agent_id, memory.c.slot == MEMORY))
        .where(not_terminated, slot.c.capacity > 0)
    )
    return sa.union_all(
        counted.group_by(group, architecture), held.group_by(group, slot.c.slot, amount), *_runtime_rows(not_terminated)
    )


def _runtime_rows(not_terminated: sa.ColumnElement[bool]) -> Iterator[sa.Select[Any]]:
    """Selects the scaling groups with agents of each runtime, and those with agents of none."""
    reported = {one: AGENTS.c.labels.contains(f'"{RUNTIME_LABEL}":"{one}"', autoescape=True) for one in RUNTIMES}
    none = sa.not_(sa.or_(*reported.values()))
    for runtime, condition in {**reported, "": none}.items():
        named, row = sa.literal_column(f"'{runtime}'", TEXT), sa.literal_column(f"'{_RUNTIME_ROW}'", TEXT)
        yield (
            sa.select(
                AGENTS.c.scaling_group,
                named.label("architecture"),
                row.label("slot"),
                sa.func.count().label("n"),
                sa.literal_column("0", WHOLE).label("memory"),
            )
            .where(not_terminated, condition)
            .group_by(AGENTS.c.scaling_group)
        )


def _rooms() -> sa.Select[Any]:
    """Sums the free slots of agents that take work."""
    free = AGENT_SLOTS.c.capacity - AGENT_SLOTS.c.used
    key = (AGENTS.c.scaling_group, AGENTS.c.architecture, AGENT_SLOTS.c.slot)
    largest = sa.func.max(AGENT_SLOTS.c.capacity).label("most")
    return (
        sa.select(*key, sa.func.sum(free).label("free"), sa.func.max(free).label("most_free"), largest)
        .join(AGENT_SLOTS, AGENT_SLOTS.c.agent_id == AGENTS.c.agent_id)
        .where(AGENTS.c.status.in_([status.value for status in SCHEDULABLE]))
        .group_by(*key)
    )


@cache
def _of_agents(table: sa.Table, postgresql: bool) -> sa.Select[Any]:  # noqa: FBT001  # a key of the cache
    """Selects the rows of agents in a table."""
    wanted = sa.select(ids_table(postgresql).c.id)
    return sa.select(table).where(table.c.agent_id.in_(wanted)).order_by(*table.primary_key.columns)
