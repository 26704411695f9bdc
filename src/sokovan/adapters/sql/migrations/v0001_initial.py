"""The first schema."""

from alembic import op

from sokovan.adapters.sql.tables import METADATA

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    METADATA.create_all(op.get_bind())


def downgrade() -> None:
    """Remove every table."""
    METADATA.drop_all(op.get_bind())
