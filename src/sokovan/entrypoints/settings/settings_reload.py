"""Applies changed settings and configured scaling groups to a running server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from sokovan.api.scaling_group_policy import require_existing, require_shard
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import InvalidSpec, ObjectNotFound, SokovanError
from sokovan.domain.ids import ScalingGroupName
from sokovan.entrypoints.settings.component_options import timing_of
from sokovan.entrypoints.settings.live_settings import LiveSettings
from sokovan.entrypoints.settings.server_settings import ServerSettings, single_settings
from sokovan.orchestrator.coordinator import SESSIONS_HINT
from sokovan.orchestrator.sessions.config import Timing
from sokovan.ports.hints import Hints
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store, UnitOfWork

_ACTOR = "settings"


class SettingsReload:
    """Follows the settings of a server; each change is logged with its values."""

    def __init__(
        self,
        live: LiveSettings,
        store: Store,
        hints: Hints,
        *,
        retime: Callable[[Timing], None],
        log: Callable[[str], None],
    ) -> None:
        self._live, self._store, self._hints = live, store, hints
        self._retime, self._log = retime, log
        self._groups: asyncio.Queue[Mapping[ScalingGroupName, ScalingGroup]] = asyncio.Queue()
        live.listen(self._changed)

    async def run(self) -> None:
        """Follow the configuration until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._live.follow())
            tasks.create_task(self._write_groups())

    def _changed(self, before: ServerSettings, after: ServerSettings) -> None:
        for path in before.differences(after):
            self._log(f"setting {path} changed{_change(path, before, after)}")
        self._retime(timing_of(after))
        if before.scaling_groups != after.scaling_groups:
            self._groups.put_nowait(after.scaling_groups)

    async def _write_groups(self) -> None:
        while True:
            groups = await self._groups.get()
            try:
                await put_groups(self._store, groups, log=self._log)
                await self._hints.set(SESSIONS_HINT)
            except SokovanError as error:
                self._log(f"the scaling groups of the configuration could not be stored: {error}")


async def put_groups(
    store: Store,
    groups: Mapping[ScalingGroupName, ScalingGroup],
    *,
    log: Callable[[str], None],
    joining: str = "",
) -> None:
    """Store the configured scaling groups that differ from the stored ones.

    The owners, queue and agents that a group names may be created after the start, so that
    a missing one is only logged; `joining` is the shard of the agent that starts now.
    """

    async def work(unit: UnitOfWork) -> list[str]:
        missing = []
        for name, group in groups.items():
            before = await _stored(unit, name)
            if before != group:
                missing += await _missing(unit, group, before, joining)
                await unit.catalog.put(group)
                await unit.audit.append(AuditEntry(_ACTOR, "scaling_group.put", name, "done"))
        return missing

    for problem in await store.run(work):
        log(f"warning: {problem}")


async def _missing(unit: UnitOfWork, group: ScalingGroup, before: ScalingGroup | None, joining: str) -> list[str]:
    """Sentences on the objects that a group names and that do not exist."""
    found = []
    try:
        await require_existing(unit, group)
    except ObjectNotFound as error:
        found.append(f"scaling group {group.name}: {error}")
    try:
        if not joining or group.scheduler_opts.get("shard") != joining:
            await require_shard(unit, group, before)
    except InvalidSpec as error:
        found.append(f"{error}; {error.hint}")
    return found


async def _stored(unit: UnitOfWork, name: ScalingGroupName) -> ScalingGroup | None:
    try:
        return await unit.catalog.get(ScalingGroup, name)
    except ObjectNotFound:
        return None


def _change(path: str, before: ServerSettings, after: ServerSettings) -> str:
    if path not in single_settings():
        return ""
    info, _ = single_settings()[path]
    return f" from {info.shown(before.value(path))} to {info.shown(after.value(path))}"
