"""Sessions and kernels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME, create_history, words

revision = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    _create_session_history()
    _create_sessions()
    _create_kernel_history()
    _create_kernels()
    _create_session_dependencies()
    _create_idempotency_keys()
    _create_reservations()


def downgrade() -> None:
    """Remove the tables, those that refer to others first."""
    for table in (
        "reservations",
        "idempotency_keys",
        "session_dependencies",
        "kernels",
        "kernel_history",
        "sessions",
        "session_history",
    ):
        op.drop_table(table)


def _create_session_history() -> None:
    create_history(
        "session",
        initial="pending",
        legal=[
            "creating>creating",
            "creating>running",
            "creating>terminating",
            "pending>cancelled",
            "pending>pending",
            "pending>scheduled",
            "prepared>creating",
            "prepared>prepared",
            "prepared>terminating",
            "preparing>prepared",
            "preparing>preparing",
            "preparing>pulling",
            "preparing>terminating",
            "pulling>prepared",
            "pulling>pulling",
            "pulling>terminating",
            "running>running",
            "running>terminating",
            "scheduled>prepared",
            "scheduled>preparing",
            "scheduled>pulling",
            "scheduled>scheduled",
            "scheduled>terminating",
            "terminating>terminated",
            "terminating>terminating",
        ],
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("history_sequence", sa.BigInteger(), nullable=False),
        sa.Column("goal", sa.SmallInteger(), nullable=False),
        sa.Column("session_type", NAME, nullable=False),
        sa.Column("scaling_group", NAME, nullable=False),
        sa.Column("queue", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("group", NAME, nullable=False),
        sa.Column("domain", NAME, nullable=False),
        sa.Column("access_key", NAME, nullable=False),
        sa.Column("required", sa.BigInteger(), nullable=False),
        sa.Column("submitted_ms", sa.BigInteger(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("cause", NAME, nullable=True),
        sa.Column("cause_detail", sa.Text(), nullable=True),
        sa.Column("result", NAME, nullable=True),
        sa.Column("hypernode", NAME, nullable=True),
        sa.Column("stamp", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(ended_ms IS NULL) = (status NOT IN ('terminated', 'cancelled'))", name="ck_sessions_ended"
        ),
        sa.CheckConstraint("result IN ('success', 'failure')", name="ck_sessions_result"),
        sa.CheckConstraint(
            "session_type IN ('interactive', 'batch', 'inference', 'system')", name="ck_sessions_session_type"
        ),
        sa.CheckConstraint(
            "status IN ("
            + words(
                "pending",
                "scheduled",
                "preparing",
                "pulling",
                "prepared",
                "creating",
                "running",
                "terminating",
                "terminated",
                "cancelled",
            )
            + ")",
            name="ck_sessions_status",
        ),
        sa.CheckConstraint("(result IS NULL) = (cause IS NULL)", name="ck_sessions_cause"),
        sa.CheckConstraint("goal IN (0, 1, 2)", name="ck_sessions_goal"),
        sa.CheckConstraint("required >= 1", name="ck_sessions_required"),
        sa.ForeignKeyConstraint(["scaling_group"], ["scaling_groups.name"], name="fk_sessions_scaling_group"),
        sa.ForeignKeyConstraint(
            ["session_id", "history_sequence", "status"],
            ["session_history.object_id", "session_history.sequence", "session_history.after"],
            name="fk_sessions_session_id_history_sequence_status",
        ),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
        sa.UniqueConstraint("place", name="uq_sessions_place"),
    )
    op.create_index("ix_sessions_stamp", "sessions", ["stamp"], unique=False)
    op.create_index("ix_sessions_status_place", "sessions", ["status", "place"], unique=False)


def _create_kernel_history() -> None:
    create_history(
        "kernel",
        initial="pending",
        legal=[
            "creating>creating",
            "creating>running",
            "creating>terminating",
            "pending>cancelled",
            "pending>pending",
            "pending>scheduled",
            "prepared>creating",
            "prepared>prepared",
            "prepared>terminating",
            "preparing>prepared",
            "preparing>preparing",
            "preparing>pulling",
            "preparing>terminating",
            "pulling>prepared",
            "pulling>pulling",
            "pulling>terminating",
            "running>running",
            "running>terminating",
            "scheduled>prepared",
            "scheduled>preparing",
            "scheduled>scheduled",
            "scheduled>terminating",
            "terminating>terminated",
            "terminating>terminating",
        ],
    )


def _create_kernels() -> None:
    op.create_table(
        "kernels",
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("history_sequence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("agent_id", NAME, nullable=True),
        sa.Column("incarnation", sa.BigInteger(), nullable=True),
        sa.Column("sent", sa.Boolean(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("slots", sa.Text(), nullable=False),
        sa.Column("architecture", NAME, nullable=False),
        sa.Column("require", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(agent_id IS NOT NULL) = (status IN ("
            + words("creating", "prepared", "preparing", "pulling", "running", "scheduled", "terminated", "terminating")
            + "))",
            name="ck_kernels_placed",
        ),
        sa.CheckConstraint(
            "status IN ("
            + words(
                "pending",
                "scheduled",
                "preparing",
                "pulling",
                "prepared",
                "creating",
                "running",
                "terminating",
                "terminated",
                "cancelled",
            )
            + ")",
            name="ck_kernels_status",
        ),
        sa.CheckConstraint("(agent_id IS NULL) = (incarnation IS NULL)", name="ck_kernels_incarnation"),
        sa.ForeignKeyConstraint(
            ["kernel_id", "history_sequence", "status"],
            ["kernel_history.object_id", "kernel_history.sequence", "kernel_history.after"],
            name="fk_kernels_kernel_id_history_sequence_status",
        ),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_kernels_session_id"),
        sa.PrimaryKeyConstraint("kernel_id", name="pk_kernels"),
        sa.UniqueConstraint("session_id", "index", "attempt", name="uq_kernels_session_id_index_attempt"),
    )
    op.create_index(
        "ix_kernels_agent_live",
        "kernels",
        ["agent_id"],
        unique=False,
        postgresql_where=sa.text("status NOT IN ('pending', 'cancelled', 'terminated')"),
        sqlite_where=sa.text("status NOT IN ('pending', 'cancelled', 'terminated')"),
    )


def _create_session_dependencies() -> None:
    op.create_table(
        "session_dependencies",
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("depends_on", NAME, nullable=False),
        sa.ForeignKeyConstraint(["depends_on"], ["sessions.session_id"], name="fk_session_dependencies_depends_on"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.session_id"], name="fk_session_dependencies_session_id"),
        sa.PrimaryKeyConstraint("session_id", "depends_on", name="pk_session_dependencies"),
    )
    op.create_index("ix_session_dependencies_depends_on", "session_dependencies", ["depends_on"], unique=False)


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("scope", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("digest", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["sessions.session_id"],
            name="fk_idempotency_keys_session_id",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_idempotency_keys"),
    )


def _create_reservations() -> None:
    op.create_table(
        "reservations",
        sa.Column("scaling_group", NAME, nullable=False),
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("session_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["kernel_id"], ["kernels.kernel_id"], name="fk_reservations_kernel_id"),
        sa.PrimaryKeyConstraint("scaling_group", "kernel_id", name="pk_reservations"),
    )
