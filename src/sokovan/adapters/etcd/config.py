"""Configuration in etcd v3, shared by several managers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from etcd3aio.kv import KVService, prefix_range_end

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.connection import EtcdConnection
from sokovan.adapters.etcd.keys import (
    GUARD,
    PREFIX,
    KeyChange,
    Pair,
    Stored,
    checked_prefix,
    guard_with,
    key_changes,
    tokens,
)
from sokovan.adapters.etcd.watching import EtcdWatch
from sokovan.ports.config import ConfigConflict, ConfigTree, ConfigUnavailable, ConfigValue, UnreadableConfig
from sokovan.ports.environment import Clock

UNKNOWN_OUTCOME = "read the configuration when etcd is available again, and repeat the change if it is missing"


class EtcdConfig:
    """ConfigStore port on etcd: one key per section or entry, below a prefix.

    A write is one transaction that compares the guard and the revisions of all keys with
    those that were read. If its response is lost, the same transaction is sent again: it
    can take effect only once, and the guard contains the token of the writer.
    """

    def __init__(self, access: EtcdAccess, *, clock: Clock, prefix: str = PREFIX) -> None:
        self._prefix = checked_prefix(prefix).encode()
        self._end = prefix_range_end(self._prefix)
        self._connection = EtcdConnection(access)
        self._clock, self._limit_s = clock, access.deadline_s
        self._closed = asyncio.Event()
        self._seen = ""

    async def read(self) -> ConfigTree:
        """The configuration now. Raises ConfigUnavailable, UnreadableConfig."""
        stored = await self.stored()
        self._seen = stored.revision
        return stored.tree()

    async def write(self, changes: Mapping[str, ConfigValue | None], *, expected: str) -> ConfigTree:
        """Set sections if the revision is still `expected`; see the port."""
        before = await self.stored()
        plan = key_changes(before, changes)
        if before.revision != expected:
            raise _conflict()
        after = await self._committed(before, plan, secrets.token_hex(8)) if plan else before
        self._seen = after.revision
        return after.tree()

    def watch(self) -> AsyncIterator[ConfigTree | UnreadableConfig]:
        """Iterate over states that this store has not read yet.

        Before the first read, that includes the current state.
        """
        return EtcdWatch(self, clock=self._clock, closed=self._closed, seen=self._seen)

    async def close(self) -> None:
        """Close connections and end all watches."""
        self._closed.set()
        await self._connection.close()

    async def stored(self) -> Stored:
        """Everything below the prefix, in one read. Raises ConfigUnavailable."""
        self._require_open()
        response: Any = await self._connection.call(self._range, doing="read")
        return self._stored(response)

    async def changed_after(self, revision: int) -> None:
        """Return when something changed, or when the watch was interrupted."""
        await self._connection.changed_below(self._prefix, self._end, after=revision)

    async def _committed(self, before: Stored, plan: Sequence[KeyChange], token: str) -> Stored:
        """The state after the change. Raises ConfigConflict, ConfigUnavailable."""
        try:
            response: Any = await self._connection.call_with_retry(
                lambda store: self._transaction(store, before, plan, token), doing="write to"
            )
        except ConfigUnavailable as error:
            if not isinstance(error.__cause__, TimeoutError | asyncio.CancelledError):
                raise  # refused, so the change was not made
            raise ConfigUnavailable(
                f"{error.message}; the outcome of the change is unknown", hint=UNKNOWN_OUTCOME
            ) from error
        after = self._stored(response.responses[-1].response_range, at=response.header.revision)
        if response.succeeded or token in tokens(after.guard):
            return after
        raise _conflict()

    async def _range(self, store: KVService) -> Any:
        return await store.get(self._prefix, range_end=self._end, timeout=self._limit_s)

    async def _transaction(self, store: KVService, before: Stored, plan: Sequence[KeyChange], token: str) -> Any:
        guard = self._key(GUARD)
        compare = [self._nothing_newer(store, before.at)]
        if before.guard:
            compare.append(store.txn_compare_value(guard, before.guard))
        everything = store.txn_op_get(self._prefix, range_end=self._end)
        changes = [self._operation(store, step) for step in plan]
        mark = store.txn_op_put(guard, guard_with(before.guard, token))
        # One attempt: a repeated one whose first response was lost would look like a conflict with another writer.
        return await store.txn(
            compare, [*changes, mark, everything], [everything], timeout=self._limit_s, max_attempts=1
        )

    def _nothing_newer(self, store: KVService, revision: int) -> Any:
        """The condition that no key below the prefix was set after `revision`."""
        compare: Any = store.txn_compare_version(self._prefix, 0, range_end=self._end)
        compare.target, compare.result = compare.MOD, compare.LESS
        compare.mod_revision = revision + 1
        return compare

    def _operation(self, store: KVService, step: KeyChange) -> Any:
        key = self._key(step.key)
        if step.is_below:
            return store.txn_op_delete(key, range_end=prefix_range_end(key))
        return store.txn_op_delete(key) if step.value is None else store.txn_op_put(key, step.value)

    def _key(self, name: str) -> bytes:
        return self._prefix + name.encode()

    def _stored(self, response: Any, *, at: int = 0) -> Stored:
        start = len(self._prefix)
        pairs = [
            Pair(pair.key[start:].decode("utf-8", "replace"), pair.value, pair.mod_revision) for pair in response.kvs
        ]
        return Stored(tuple(pairs), at or response.header.revision)

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise ConfigUnavailable(
                "the configuration store is closed", hint="open it again; this is a bug of the caller"
            )


def _conflict() -> ConfigConflict:
    return ConfigConflict("the configuration in etcd has changed since it was read")
