"""Bootstraps a new store: default owners, scaling group, queue and the admin key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sokovan.api.access.authentication import new_token, token_digest
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AccessKey, QueueName, ScalingGroupName
from sokovan.domain.owners.tenancy import DEFAULT_OWNER_NAME, Domain, Group, Keypair, Role, User
from sokovan.ports.environment import IdSource
from sokovan.ports.storage import Store, UnitOfWork

ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class AdminKey:
    """The token of the first administrator; `fresh` if it was just created."""

    token: str
    fresh: bool


async def bootstrap(store: Store) -> None:
    """Create missing defaults; existing items are not changed."""

    async def work(unit: UnitOfWork) -> None:
        defaults = (
            (Domain, DEFAULT_OWNER_NAME, Domain(DEFAULT_OWNER_NAME)),
            (Group, DEFAULT_OWNER_NAME, Group(DEFAULT_OWNER_NAME, DEFAULT_OWNER_NAME)),
            (User, ADMIN, User(ADMIN, DEFAULT_OWNER_NAME, groups=(DEFAULT_OWNER_NAME,), role=Role.ADMIN)),
            (ScalingGroup, "default", ScalingGroup(ScalingGroupName("default"))),
            (Queue, "default", Queue(QueueName("default"))),
        )
        for kind, name, item in defaults:
            if not await _has(unit, kind, name):
                await unit.catalog.put(item)

    await store.run(work)


async def admin_key(store: Store, stored: str | None, *, ids: IdSource, pepper: bytes) -> AdminKey:
    """The stored key of an earlier start if it is still valid, or a new one."""
    if stored and await store.read(lambda unit: unit.credentials.find(token_digest(stored, pepper))) is not None:
        return AdminKey(stored, fresh=False)
    access_key = AccessKey(ids.new("AK"))
    token = new_token(access_key)

    async def work(unit: UnitOfWork) -> None:
        await unit.catalog.put(Keypair(access_key, ADMIN))
        await unit.credentials.put(access_key, token_digest(token, pepper))

    await store.run(work)
    return AdminKey(token, fresh=True)


async def _has(unit: UnitOfWork, kind: Any, name: str) -> bool:
    try:
        await unit.catalog.get(kind, name)
    except ObjectNotFound:
        return False
    return True
