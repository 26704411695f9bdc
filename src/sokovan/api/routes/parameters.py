"""Parameters that many operations share."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum, auto
from typing import Annotated, Any, TypeAlias

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator

from sokovan.api.mapping.times import read_time
from sokovan.api.pagination import CURSOR_MAX, PAGE_DEFAULT, PAGE_MAX, session_position
from sokovan.domain.constraints.labels import read_selectors
from sokovan.domain.ids import NAME_PATTERN, SessionId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.ports.repositories.sessions import (
    SessionFilter,
    SessionOrder,
    SessionPosition,
    SessionProperty,
    SessionSort,
)

REF_MAX = 200
# Characters of the reason that a user gives.
REASON_MAX = 500
INDEX_MAX = 1_000_000
# The longest text of a time.
TIME_MAX = 40
# Sessions that a listing may name.
IDS_MAX = 200
# Characters of a search; its words are looked for in each session.
SEARCH_MAX = 64

Ref: TypeAlias = Annotated[str, Path(max_length=REF_MAX, description="An id, a name, or a unique prefix of one.")]
Index: TypeAlias = Annotated[int, Path(ge=0, le=INDEX_MAX, description="The kernel's index in its session.")]
Name: TypeAlias = Annotated[str, Path(max_length=REF_MAX, description="The name of the object.")]
IdempotencyKey: TypeAlias = Annotated[
    str | None, Header(pattern=r"^[\x21-\x7e]{1,128}$", description="The same key and body give the same session.")
]
InScalingGroup: TypeAlias = Annotated[str | None, Query(pattern=NAME_PATTERN, description="In this scaling group.")]
DryRun: TypeAlias = Annotated[bool, Query(description="Only check the change, and store nothing.")]
Replace: TypeAlias = Annotated[bool, Query(description="Replace the object of this name, if there is one.")]
Architecture: TypeAlias = Annotated[
    str | None, Query(pattern=NAME_PATTERN, description="The architecture of the image.")
]


def name_field(description: str) -> Any:
    """An optional query parameter that is a name."""
    return Field(default=None, pattern=NAME_PATTERN, description=description)


class SessionChoice(BaseModel):
    """Filters of sessions; a missing one matches all."""

    model_config = ConfigDict(extra="forbid")

    queue: str | None = name_field("In this queue.")
    scaling_group: str | None = name_field("In this scaling group.")
    user: str | None = name_field("Of this user.")
    group: str | None = name_field("Of this group.")

    def filter(self) -> SessionFilter:
        """The store's filter."""
        return SessionFilter(
            queue=self.queue or "",
            scaling_group=self.scaling_group or "",
            user=self.user or "",
            group=self.group or "",
        )


class WhyQuery(BaseModel):
    """Options of an explanation."""

    model_config = ConfigDict(extra="forbid")

    evict: bool = Field(default=False, description="List the sessions that would be evicted for it, as a dry run.")


class PageQuery(BaseModel):
    """The part of a list that is wanted."""

    limit: int = Field(default=PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="The maximum number of items.")
    cursor: str | None = Field(default=None, max_length=CURSOR_MAX, description="`next` of the previous page.")


class StatusChoice(SessionChoice):
    """Filters of sessions by their state and labels as well."""

    status: list[SessionStatus] = Field(default_factory=list, description="With any of these statuses; repeatable.")
    label: list[str] = Field(default_factory=list, description="With this label: NAME or NAME=VALUE; repeatable.")
    mine: bool = Field(default=False, description="Only the caller's own sessions.")
    q: str | None = Field(
        default=None, max_length=SEARCH_MAX, description="With these words in the name, id, user or queue."
    )

    @field_validator("status", "id", mode="before", check_fields=False)
    @classmethod
    def _split(cls, given: Any) -> Any:
        """Split `running,pending` like two parameters."""
        texts = given if isinstance(given, list) else [given]
        return [part for text in texts for part in (text.split(",") if isinstance(text, str) else [text])]

    def filter(self) -> SessionFilter:
        """The store's filter."""
        words = tuple(dict.fromkeys((self.q or "").split()))
        return replace(super().filter(), statuses=tuple(self.status), labels=read_selectors(self.label), words=words)


class ArrayQuery(StatusChoice, PageQuery):
    """The filters and the page of a listing."""


class SessionFilters(StatusChoice):
    """The filters of sessions."""

    id: list[str] = Field(default_factory=list, max_length=IDS_MAX, description="With any of these ids; repeatable.")
    name: str | None = name_field("With exactly this name.")
    array: str | None = name_field("In this array: its id, its name, or a unique prefix of one.")
    reason: str | None = name_field("PENDING for this reason, such as QUOTA_USER.")
    outside_arrays: bool = Field(default=False, description="Only sessions that are in no array.")
    since: str | None = Field(default=None, max_length=TIME_MAX, description="That had not ended at this time.")
    until: str | None = Field(default=None, max_length=TIME_MAX, description="That were submitted before this time.")

    def filter(self) -> SessionFilter:
        """The store's filter; the array is looked up by the caller. Raises InvalidSpec."""
        return replace(
            super().filter(),
            ids=tuple(SessionId(one) for one in self.id),
            name=self.name or "",
            reason=self.reason or "",
            outside_arrays=self.outside_arrays,
            since_ms=None if self.since is None else read_time(self.since, field="since", what="filter"),
            until_ms=None if self.until is None else read_time(self.until, field="until", what="filter"),
        )


class SessionSorting(StrEnum):
    """An order of sessions; with a minus sign it falls. Equal ones are newest first."""

    NEWEST = auto()
    OLDEST = auto()
    NAME = auto()
    NAME_FALLING = "-name"
    USER = auto()
    USER_FALLING = "-user"
    QUEUE = auto()
    QUEUE_FALLING = "-queue"
    STATUS = auto()
    STATUS_FALLING = "-status"
    KERNELS = auto()
    KERNELS_FALLING = "-kernels"
    GPUS = auto()
    GPUS_FALLING = "-gpus"
    REASON = auto()
    REASON_FALLING = "-reason"

    def order(self) -> SessionOrder:
        """The store's order."""
        if self in {SessionSorting.NEWEST, SessionSorting.OLDEST}:
            return SessionOrder(falls=self is SessionSorting.NEWEST)
        return SessionOrder(SessionSort(self.value.removeprefix("-")), falls=self.value.startswith("-"))


class SessionQuery(SessionFilters, PageQuery):
    """The filters, the order and the page of a listing of sessions."""

    sort: SessionSorting | None = Field(
        default=None,
        description="By default the newest first, and those of an array by index; a minus sign turns the order round.",
    )

    def order(self) -> SessionOrder:
        """The store's order."""
        return SessionOrder(falls=self.array is None) if self.sort is None else self.sort.order()

    def after(self) -> SessionPosition | None:
        """The position that the page begins after. Raises InvalidRequest."""
        return session_position(self.cursor, self.order().by)


class SessionCountQuery(SessionFilters):
    """The filters of sessions, and what they are counted by."""

    by: SessionProperty = Field(default=SessionProperty.STATUS, description="The property that is counted.")
