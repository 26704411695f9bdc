"""Quotas of a single owner: `group:nlp` has the quota `group.nlp`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sokovan.cli.output import print_status
from sokovan.sdk.errors import InvalidSetting

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

OWNERS = ("user", "group", "domain")


def policy_of(name: str) -> str:
    """The name under which a quota is stored. Raises InvalidSetting."""
    kind, colon, owner = name.partition(":")
    if not colon:
        return name
    if kind not in OWNERS or not owner:
        raise InvalidSetting(f"{name[:80]!r} is not an owner", hint="use user:NAME, group:NAME or domain:NAME")
    return f"{kind}.{owner}"


def require_owner(client: Client, name: str) -> None:
    """Check that the owner that `name` denotes exists, first. Raises NotFound."""
    kind, colon, owner = name.partition(":")
    if colon:
        catalogs = {"user": client.users, "group": client.groups, "domain": client.domains}
        catalogs[kind].get(owner)  # type: ignore[attr-defined]  # each has get


def owners_of(client: Client, policy: str) -> list[str]:
    """The owners that a quota is assigned to, of those that the caller may see."""
    users = [f"user:{one.name}" for one in client.users.list() if one.policy == policy]
    groups = [f"group:{one.name}" for one in client.groups.list() if one.policy == policy]
    domains = [f"domain:{one.name}" for one in client.domains.list() if one.policy == policy]
    keys = [f"key:{one.access_key}" for one in client.keys.list() if one.policy == policy]
    return [*domains, *groups, *users, *keys]


def assign_quota(client: Client, name: str) -> None:
    """Assign the quota to the owner that `name` denotes, if it denotes one."""
    kind, colon, owner = name.partition(":")
    if not colon:
        return
    policy = policy_of(name)
    if kind == "user":
        client.users.put(replace(client.users.get(owner), policy=policy))
    elif kind == "group":
        client.groups.put(replace(client.groups.get(owner), policy=policy))
    else:
        client.domains.put(replace(client.domains.get(owner), policy=policy))
    print_status(f"quota {policy} assigned to {kind} {owner}")
