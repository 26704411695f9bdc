"""Parameters that many operations share."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from sokovan.ports.repositories.sessions import SessionFilter

# The pattern of `domain.ids`: invalid names are rejected before any lookup.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._\-/:@+]{0,127}$"
REF_MAX = 200
INDEX_MAX = 1_000_000

Ref: TypeAlias = Annotated[str, Path(max_length=REF_MAX, description="An id, a name, or a unique prefix of one.")]
Index: TypeAlias = Annotated[int, Path(ge=0, le=INDEX_MAX, description="The kernel's index in its session.")]
Name: TypeAlias = Annotated[str, Path(max_length=REF_MAX, description="The name of the object.")]


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
