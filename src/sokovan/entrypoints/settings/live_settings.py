"""The settings in force, reloaded while the server runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.settings.server_settings import InvalidSettings, ServerSettings, settings_of, single_settings
from sokovan.ports.config import ConfigStore, ConfigTree, ConfigUnavailable, ConfigValue, UnreadableConfig
from sokovan.ports.environment import Clock
from sokovan.scheduling.registry import PluginRegistry

REFUSED = "refused"
FROM_CACHE = "from-cache"
RESTART_NEEDED = "restart-needed"
NOT_CACHED = "not-cached"
LISTENER_FAILED = "listener-failed"

Listener = Callable[[ServerSettings, ServerSettings], None]


@dataclass(frozen=True, slots=True)
class Notice:
    """An active condition of the settings that operators should know."""

    kind: str
    text: str
    since_ms: int


class LiveSettings:
    """Holds the settings in force and reloads them on changes.

    An invalid configuration is refused as a whole: the old settings stay in force, and a
    notice has the invalid values and the time. `overlay` adds what takes precedence over
    the stored configuration. `report` is called with each new notice.
    """

    def __init__(
        self,
        store: ConfigStore,
        *,
        clock: Clock,
        registry: PluginRegistry | None = None,
        overlay: Callable[[ConfigTree], ConfigTree] = lambda tree: tree,
        write_file: Callable[[Path, bytes], None] = write_whole,
        report: Callable[[Notice], None] = lambda _notice: None,
    ) -> None:
        self._store, self._clock, self._registry, self._overlay = store, clock, registry, overlay
        self._write_file, self._report = write_file, report
        self._current: ServerSettings | None = None
        self.origins: Mapping[str, str] = {}
        self._cache: Path | None = None
        self._listeners: list[Listener] = []
        self._active: dict[str, Notice] = {}

    @property
    def current(self) -> ServerSettings:
        """The settings in force. Raises ConfigUnavailable before the start."""
        if self._current is None:
            raise ConfigUnavailable("the settings have not been read yet", hint="await start_from first")
        return self._current

    @property
    def refusal(self) -> Notice | None:
        """The notice of a refused configuration; None while the latest one is in force."""
        return self._active.get(REFUSED)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All active notices, oldest first."""
        return tuple(sorted(self._active.values(), key=lambda notice: notice.since_ms))

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the old and the new settings after each change."""
        self._listeners.append(listener)

    def report_to(self, report: Callable[[Notice], None]) -> None:
        """Call `report` with the active notices, and with each new one."""
        self._report = report
        for notice in self.notices:
            report(notice)

    async def start_from(self, cache: Path | None) -> ServerSettings:
        """Read the settings, or the last valid ones from the file `cache` if that fails.

        Raises ConfigUnavailable, UnreadableConfig, InvalidSettings if there is no cache.
        """
        self._cache = cache
        try:
            tree = await self._store.read()
            self._current, self.origins = self._read(tree)
        except (ConfigUnavailable, UnreadableConfig, InvalidSettings) as error:
            self._current = await self._cached(error)
        else:
            await self._write_cache(tree)
        return self._current

    async def follow(self) -> None:
        """Apply each change of the configuration until its store is closed."""
        async for state in self._store.watch():
            if isinstance(state, UnreadableConfig):
                self._refuse(state)
            else:
                await self._apply(state)

    async def _apply(self, tree: ConfigTree) -> None:
        try:
            requested, origins = self._read(tree)
        except (InvalidSettings, ConfigUnavailable, UnreadableConfig) as error:
            self._refuse(error)
            return
        before = self.current
        self._current = after = self._hot_part(before, requested)
        self.origins = self._origins_after(origins)
        self._clear(REFUSED)
        self._clear(FROM_CACHE)
        if after != before:
            for listener in self._listeners:
                self._notify(listener, before, after)
        await self._write_cache(tree)

    def _read(self, tree: ConfigTree) -> tuple[ServerSettings, Mapping[str, str]]:
        whole = self._overlay(tree)
        return settings_of(whole.values, self._registry, origins=whole.origins), whole.origins

    def _hot_part(self, before: ServerSettings, requested: ServerSettings) -> ServerSettings:
        """The settings with the hot ones that are requested; the others need a restart."""
        after = before.with_hot(requested)
        held_back = after.differences(requested)
        if held_back:
            self._note(RESTART_NEEDED, f"restart the server to apply: {', '.join(held_back)}")
        else:
            self._clear(RESTART_NEEDED)
        return after

    def _origins_after(self, requested: Mapping[str, str]) -> Mapping[str, str]:
        """The origins of the values in force: a value that is not hot keeps its own."""
        cold = {path for path, (info, _) in single_settings().items() if not info.hot}
        kept = {path: origin for path, origin in self.origins.items() if path in cold}
        return {**{path: origin for path, origin in requested.items() if path not in cold}, **kept}

    def _notify(self, listener: Listener, before: ServerSettings, after: ServerSettings) -> None:
        try:
            listener(before, after)
        except Exception as error:  # noqa: BLE001  # a failing listener must not block the others
            self._note(LISTENER_FAILED, f"a component did not apply the change: {type(error).__name__}: {error}")

    def _refuse(self, error: SokovanError) -> None:
        self._note(REFUSED, error.message)

    def _note(self, kind: str, text: str) -> None:
        """Report a notice, unless it is active already."""
        active = self._active.get(kind)
        if active is None or active.text != text:
            self._active[kind] = Notice(kind, text, self._clock.now_ms())
            self._report(self._active[kind])

    def _clear(self, kind: str) -> None:
        self._active.pop(kind, None)

    async def _write_cache(self, tree: ConfigTree) -> None:
        """Cache the last valid configuration for a start without the config server."""
        if self._cache is None:
            return
        content = json.dumps({"saved_ms": self._clock.now_ms(), "values": dict(tree.values)}, indent=1)
        try:
            await asyncio.to_thread(self._write_file, self._cache, content.encode())
        except OSError as error:
            self._note(NOT_CACHED, f"cannot cache the settings in {self._cache}: {error.strerror or error}")
        else:
            self._clear(NOT_CACHED)

    async def _cached(self, error: SokovanError) -> ServerSettings:
        """The cached settings, with notices; raises `error` if there are none."""
        found = await asyncio.to_thread(_read_cache, self._cache)
        if found is None:
            raise error
        saved_ms, values = found
        try:
            settings, self.origins = self._read(ConfigTree(values, ""))
        except (InvalidSettings, ConfigUnavailable, UnreadableConfig) as outdated:
            # Cached settings may name a plugin that is no longer installed.
            raise error from outdated
        age_s = max(0, self._clock.now_ms() - saved_ms) // 1000
        self._note(FROM_CACHE, f"{error.message}; the settings of {age_s} s ago are in force, from {self._cache}")
        if not isinstance(error, ConfigUnavailable):
            self._refuse(error)
        return settings


def _read_cache(path: Path | None) -> tuple[int, Mapping[str, ConfigValue]] | None:
    """Time and values of the cached configuration; None if there is none."""
    if path is None:
        return None
    try:
        found = json.loads(path.read_bytes())
        saved_ms, values = found["saved_ms"], found["values"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return (saved_ms, values) if isinstance(saved_ms, int) and isinstance(values, dict) else None
