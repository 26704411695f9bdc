"""Sessions and kernels that are spared run on."""

from __future__ import annotations

from sokovan.adapters.sql.schema.migration_forms import allow_move, forbid_move

revision = "0034"
down_revision: str | None = "0033"

_SPARED, _NEXT = "terminating>running", "terminating>terminated"


def upgrade() -> None:
    """Allow the move back to RUNNING."""
    for kind in ("session", "kernel"):
        allow_move(kind, _SPARED, before=_NEXT)


def downgrade() -> None:
    """Remove it again."""
    for kind in ("session", "kernel"):
        forbid_move(kind, _SPARED)
