"""Replicas that drain are replaced if their answers fail."""

from __future__ import annotations

from sokovan.adapters.sql.schema.migration_forms import allow_move, forbid_move

revision = "0040"
down_revision: str | None = "0039"

_REPLACED, _NEXT = "draining>failed", "draining>gone"


def upgrade() -> None:
    """Allow the move to FAILED."""
    allow_move("replica", _REPLACED, before=_NEXT)


def downgrade() -> None:
    """Remove it again."""
    forbid_move("replica", _REPLACED)
