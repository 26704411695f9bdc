"""The route table in force, with its deltas applied, and who may use what."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import Generic, TypeVar

from sokovan.proxy.routing.route_state import RouteState
from sokovan.wire.serving.route_table import KeyEntry, RouteEntry, TableUpdate

W = TypeVar("W")


class StaleDelta(Exception):
    """A delta that does not follow the table in force; the whole table is needed."""


class TableState(Generic[W]):
    """Routes and keys of a proxy.

    `epoch` is empty before the first table. Routes keep their state from one version to
    the next; one that was removed is marked as such, its requests end as they can.
    """

    def __init__(self) -> None:
        self.epoch, self.version, self.digest_key = "", 0, b""
        self.routes: dict[str, RouteState[W]] = {}
        self.keys: dict[str, KeyEntry] = {}
        self._by_digest: dict[str, KeyEntry] = {}
        self._by_name: dict[str, list[RouteState[W]]] = {}

    def apply(self, update: TableUpdate) -> None:
        """Apply a whole table or a delta. Raises StaleDelta and changes nothing then."""
        if update.base is None:
            wanted = {route.deployment_id for route in update.routes}
            removed = [one for one in self.routes if one not in wanted]
            keys: dict[str, KeyEntry] = {}
        elif update.epoch != self.epoch or not update.base <= self.version <= update.version:
            raise StaleDelta(f"version {self.version} of {self.epoch!r}, delta from {update.base} of {update.epoch!r}")
        else:
            removed, keys = list(update.removed), dict(self.keys)
        for one in removed:
            route = self.routes.pop(one, None)
            if route is not None:
                route.removed = True
        for entry in update.routes:
            self._put(entry)
        for key_id in update.keys_removed:
            keys.pop(key_id, None)
        keys.update((key.key_id, key) for key in update.keys)
        self.keys = keys
        self.epoch, self.version = update.epoch, update.version
        if update.base is None or update.digest_key:
            self.digest_key = update.digest_key.encode()
        self._index()

    def snapshot(self) -> TableUpdate:
        """The whole table, to keep it on disk."""
        return TableUpdate(
            epoch=self.epoch,
            version=self.version,
            digest_key=self.digest_key.decode(),
            routes=tuple(route.noted() for route in self.routes.values()),
            keys=tuple(self.keys.values()),
        )

    def key_of(self, secret: bytes) -> KeyEntry | None:
        """The key with this secret, whether it has expired or not."""
        return self._by_digest.get(hmac.digest(self.digest_key, secret, "sha256").hex())

    def named(self, name: str) -> list[RouteState[W]]:
        """The routes that are called `name`, or serve a model of this name."""
        return self._by_name.get(name, [])

    def usable_by(self, key: KeyEntry | None) -> Iterator[RouteState[W]]:
        """The routes that a key may use; None is a caller without one."""
        return (route for route in self.routes.values() if may_use(key, route.entry))

    def _put(self, entry: RouteEntry) -> None:
        known = self.routes.get(entry.deployment_id)
        if known is None:
            self.routes[entry.deployment_id] = RouteState(entry)
        else:
            known.replace(entry)

    def _index(self) -> None:
        self._by_digest = {key.digest: key for key in self.keys.values()}
        by_name: dict[str, list[RouteState[W]]] = {}
        for route in self.routes.values():
            entry = route.entry
            plain = {entry.name, *entry.models}
            for name in plain | {f"{entry.project}/{one}" for one in plain}:
                by_name.setdefault(name, []).append(route)
        self._by_name = by_name


def may_use(key: KeyEntry | None, route: RouteEntry, model: str = "") -> bool:
    """Whether a key may use a route, and a model of it if one is named."""
    if key is None:
        return route.access == "public"
    if key.models and model and model not in key.models:
        return False
    if key.kind == "endpoint":
        return route.deployment_id in key.deployments
    if key.deployments and route.deployment_id not in key.deployments:
        return False
    return (
        route.access == "public"
        or route.owner == key.owner
        or (route.access == "project" and route.project in key.projects)
    )
