"""JSON types of job arrays."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayView:
    """A job array: its size, and how many of its sessions have which status.

    At most `limit` of its sessions run at once. `result` is set when all have ended;
    users ended those that are `cancelled`, which have not failed.
    """

    id: str
    name: str
    status: str
    result: str | None
    user: str
    group: str
    domain: str
    scaling_group: str
    queue: str
    indexes: str
    size: int
    limit: int | None
    submitted_at: str
    succeeded: int
    failed: int
    cancelled: int
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPage:
    """A page of arrays; `next` is the cursor of the next page."""

    items: list[ArrayView]
    next: str | None = None
