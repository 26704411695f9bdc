"""Deployments, routes, endpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME, create_history, words

revision = "0006"
down_revision: str | None = "0005"


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    _create_deployment_history()
    _create_deployments()
    _create_route_history()
    _create_routes()
    _create_endpoints()


def downgrade() -> None:
    """Remove the tables, those that refer to others first."""
    for table in ("endpoints", "routes", "route_history", "deployments", "deployment_history"):
        op.drop_table(table)


def _create_deployment_history() -> None:
    create_history(
        "deployment",
        initial="pending",
        legal=[
            "destroying>destroying",
            "destroying>terminated",
            "pending>destroying",
            "pending>pending",
            "pending>provisioning",
            "provisioning>destroying",
            "provisioning>provisioning",
            "provisioning>running",
            "running>destroying",
            "running>running",
        ],
    )


def _create_deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("deployment_id", NAME, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("history_sequence", sa.BigInteger(), nullable=False),
        sa.Column("scaling_group", NAME, nullable=False),
        sa.Column("replicas_desired", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "status IN (" + words("pending", "provisioning", "running", "destroying", "terminated") + ")",
            name="ck_deployments_status",
        ),
        sa.CheckConstraint("replicas_desired >= 0", name="ck_deployments_replicas"),
        sa.ForeignKeyConstraint(
            ["deployment_id", "history_sequence", "status"],
            ["deployment_history.object_id", "deployment_history.sequence", "deployment_history.after"],
            name="fk_deployments_deployment_id_history_sequence_status",
        ),
        sa.ForeignKeyConstraint(["scaling_group"], ["scaling_groups.name"], name="fk_deployments_scaling_group"),
        sa.PrimaryKeyConstraint("deployment_id", name="pk_deployments"),
    )


def _create_route_history() -> None:
    create_history(
        "route",
        initial="pending",
        legal=[
            "error>error",
            "error>running",
            "error>terminating",
            "pending>error",
            "pending>pending",
            "pending>provisioning",
            "pending>terminating",
            "provisioning>error",
            "provisioning>provisioning",
            "provisioning>running",
            "provisioning>terminating",
            "running>error",
            "running>running",
            "running>terminating",
            "terminating>terminated",
            "terminating>terminating",
        ],
    )


def _create_routes() -> None:
    op.create_table(
        "routes",
        sa.Column("route_id", NAME, nullable=False),
        sa.Column("deployment_id", NAME, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("history_sequence", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "status IN (" + words("pending", "provisioning", "running", "error", "terminating", "terminated") + ")",
            name="ck_routes_status",
        ),
        sa.ForeignKeyConstraint(["deployment_id"], ["deployments.deployment_id"], name="fk_routes_deployment_id"),
        sa.ForeignKeyConstraint(
            ["route_id", "history_sequence", "status"],
            ["route_history.object_id", "route_history.sequence", "route_history.after"],
            name="fk_routes_route_id_history_sequence_status",
        ),
        sa.PrimaryKeyConstraint("route_id", name="pk_routes"),
    )
    op.create_index("ix_routes_deployment_id", "routes", ["deployment_id"], unique=False)


def _create_endpoints() -> None:
    op.create_table(
        "endpoints",
        sa.Column("route_id", NAME, nullable=False),
        sa.Column("kernel_id", NAME, nullable=False),
        sa.Column("agent_id", NAME, nullable=False),
        sa.Column("port", sa.BigInteger(), nullable=False),
        sa.Column("health", NAME, nullable=False),
        sa.Column("weight", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["route_id"], ["routes.route_id"], name="fk_endpoints_route_id"),
        sa.PrimaryKeyConstraint("route_id", "kernel_id", name="pk_endpoints"),
        sa.UniqueConstraint("agent_id", "port", name="uq_endpoints_agent_id_port"),
    )
