"""Configuration in one TOML file, with a folder of drop-ins."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path

from sokovan.adapters.local.atomic_file import PRIVATE, remove_unfinished, write_whole
from sokovan.adapters.local.toml_files import (
    OverriddenSetting,
    TomlFiles,
    applied,
    read_files,
    signature,
    value_at,
)
from sokovan.adapters.local.toml_text import written
from sokovan.ports.config import (
    ConfigConflict,
    ConfigTree,
    ConfigUnavailable,
    ConfigValue,
    UnreadableConfig,
    section_and_entry,
)
from sokovan.ports.environment import Clock

POLL_S = 1.0
# Editors truncate a file before they write it, so a new state counts only if two reads agree.
SETTLE_S = 0.25
LOCK_LIMIT_S = 10.0
LOCK_POLL_S = 0.02
# Two changes within one timestamp tick may look like one, so recently changed files are read again.
RECENT_MS = 2_000

HEADER = "# Written by sokovan. Comments are not kept; the previous version of the file has the suffix .bak.\n\n"


class TomlConfig:
    """ConfigStore port on a file and, read after it in name order, `conf.d/*.toml`.

    Writes replace the main file atomically and keep the previous version as `.bak`. A
    main file that never existed is an empty configuration; one that is removed or emptied
    during a watch is an error, because that is hardly ever intended.
    """

    def __init__(self, path: Path, *, clock: Clock, drop_ins: Path | None = None, poll_s: float = POLL_S) -> None:
        self.path, self.drop_ins = path, drop_ins
        self._clock, self._poll_s = clock, poll_s
        self._closed = asyncio.Event()
        self._seen: TomlFiles | None = None

    async def read(self) -> ConfigTree:
        """The configuration now. Raises ConfigUnavailable, UnreadableConfig."""
        self._seen = await asyncio.to_thread(read_files, self.path, self.drop_ins)
        return self._seen.tree()

    async def write(self, changes: Mapping[str, ConfigValue | None], *, expected: str) -> ConfigTree:
        """Set sections if the revision is still `expected`; see the port."""
        deadline = self._clock.monotonic_ms() + LOCK_LIMIT_S * 1000
        while self._clock.monotonic_ms() < deadline:
            try:
                after = await asyncio.to_thread(self._attempt, changes, expected)
            except OSError as error:
                raise ConfigUnavailable(f"cannot write {self.path}: {error.strerror or error}") from error
            if after is not None:
                self._seen = after
                return after.tree()
            await self._clock.sleep(LOCK_POLL_S)
        raise ConfigUnavailable(f"another process has been writing {self.path} for {LOCK_LIMIT_S:.0f} s")

    def watch(self) -> AsyncIterator[ConfigTree | UnreadableConfig]:
        """Iterate over states that this store has not read yet.

        Before the first read, that includes the current state.
        """
        return _Watch(self, self._seen)

    async def close(self) -> None:
        """End all watches."""
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        """Whether the store is closed."""
        return self._closed.is_set()

    async def poll(self, *, is_settling: bool) -> None:
        """Wait until the files are to be checked again, or the store is closed."""
        pause_s = min(self._poll_s, SETTLE_S) if is_settling else self._poll_s
        waits = [asyncio.ensure_future(self._clock.sleep(pause_s)), asyncio.ensure_future(self._closed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def is_recent(self, file: tuple[str, int, int, int]) -> bool:
        """Whether a file changed so recently that another change may be invisible."""
        _, changed_ns, *_ = file
        return self._clock.now_ms() - changed_ns // 1_000_000 < RECENT_MS

    def _attempt(self, changes: Mapping[str, ConfigValue | None], expected: str) -> TomlFiles | None:
        """Compare-and-set under the lock; None while another process holds it."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(self.path) as is_ours:
            if not is_ours:
                return None
            before = read_files(self.path, self.drop_ins)
            if before.revision != expected:
                raise ConfigConflict(f"{self.path} has changed since it was read")
            own = before.own()
            text = written(applied(own, changes))
            after = before.with_content((HEADER + text).encode())
            _require_effect(after, changes)
            if text == written(own):
                return before
            remove_unfinished(self.path)
            if before.content is not None:
                write_whole(self.path.with_name(f"{self.path.name}.bak"), before.content)
            write_whole(self.path, after.content or b"")
            return after


class _Watch:
    """Iterates over the states of the files that differ from the previous one."""

    def __init__(self, store: TomlConfig, seen: TomlFiles | None) -> None:
        self._store = store
        self._returned = seen.revision if seen else ""
        self._candidate = ""
        self._had_text = seen is not None and not seen.is_blank
        self._signature: tuple[tuple[str, int, int, int], ...] | None = None

    def __aiter__(self) -> _Watch:
        return self

    async def __anext__(self) -> ConfigTree | UnreadableConfig:
        while not self._store.is_closed:
            state = await asyncio.to_thread(self._new_state)
            if state is not None:
                return state
            await self._store.poll(is_settling=bool(self._candidate))
        raise StopAsyncIteration

    def _new_state(self) -> ConfigTree | UnreadableConfig | None:
        path, drop_ins = self._store.path, self._store.drop_ins
        try:
            seen = signature(path, drop_ins)
            if seen == self._signature and not self._candidate and not any(map(self._store.is_recent, seen)):
                return None
            files = read_files(path, drop_ins)
        except ConfigUnavailable as error:
            return self._settled(error.message, UnreadableConfig(path=str(path), problem=error.message))
        except UnreadableConfig as error:
            return self._settled(str(error), error)
        self._signature = seen
        if files.is_blank and self._had_text:
            problem = "was removed" if files.content is None else "is empty; add a comment to it if this is intended"
            return self._settled(problem, UnreadableConfig(path=str(path), problem=problem))
        return self._settled(files.revision, files)

    def _settled(self, identity: str, state: TomlFiles | UnreadableConfig) -> ConfigTree | UnreadableConfig | None:
        """The state, if it is new and two consecutive reads found it."""
        is_new, is_settled = identity != self._returned, identity == self._candidate
        self._candidate = identity if is_new and not is_settled else ""
        if not is_new or not is_settled:
            return None
        self._returned = identity
        if isinstance(state, UnreadableConfig):
            return state
        self._had_text = not state.is_blank
        try:
            return state.tree()
        except UnreadableConfig as error:
            return error


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Try to lock the file; the kernel releases the lock if the process dies."""
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _require_effect(after: TomlFiles, names: Iterable[str]) -> None:
    """Refuse a change that a drop-in overrides; also parses the text to be written."""
    own, values = after.own(), after.tree().values
    for name in names:
        section, entry = section_and_entry(name)
        if value_at(values, section, entry) != value_at(own, section, entry):
            raise OverriddenSetting(setting=name, file=after.overriding(section, entry))
