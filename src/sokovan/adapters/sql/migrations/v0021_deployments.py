"""Deployments with revisions, replicas, rollouts, endpoint tokens and proxies.

The tables of deployments and routes are made anew: no release could write to them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.migrations import v0006_serving
from sokovan.adapters.sql.schema.migration_forms import NAME, create_history, words

revision = "0021"
down_revision: str | None = "0020"

_NEW = (
    "endpoint_usage",
    "proxies",
    "endpoint_tokens",
    "serving_table",
    "routes",
    "rollouts",
    "replicas",
    "deployment_revisions",
    "deployments",
)


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    for table in ("endpoints", "routes", "deployments"):
        op.drop_table(table)
    for kind in ("route", "deployment"):
        op.execute(sa.text(f"DELETE FROM {kind}_history"))  # noqa: S608  # of constants only
    _create_histories()
    _create_deployments()
    _create_revisions()
    _create_replicas()
    _create_rollouts()
    _create_routes()
    _create_tokens()
    _create_proxies()


def downgrade() -> None:
    """Restore the empty tables of before."""
    for table in _NEW:
        op.drop_table(table)
    for kind in ("route", "deployment", "replica", "rollout"):
        op.drop_table(f"{kind}_history")
    v0006_serving.upgrade()


def _create_histories() -> None:
    create_history(
        "replica",
        initial="pending",
        legal=[
            "active>active",
            "active>draining",
            "active>failed",
            "active>unhealthy",
            "draining>draining",
            "draining>gone",
            "draining>stopping",
            "pending>failed",
            "pending>gone",
            "pending>pending",
            "pending>starting",
            "starting>failed",
            "starting>starting",
            "starting>stopping",
            "starting>warming",
            "stopping>gone",
            "stopping>stopping",
            "unhealthy>active",
            "unhealthy>draining",
            "unhealthy>failed",
            "unhealthy>stopping",
            "unhealthy>unhealthy",
            "warming>active",
            "warming>failed",
            "warming>stopping",
            "warming>warming",
        ],
    )
    create_history(
        "rollout",
        initial="planning",
        legal=[
            "awaiting_promotion>awaiting_promotion",
            "awaiting_promotion>promoting",
            "awaiting_promotion>rolling_back",
            "planning>planning",
            "planning>progressing",
            "planning>rolling_back",
            "progressing>awaiting_promotion",
            "progressing>completed",
            "progressing>progressing",
            "progressing>promoting",
            "progressing>rolling_back",
            "promoting>completed",
            "promoting>promoting",
            "promoting>rolling_back",
            "rolling_back>rolled_back",
            "rolling_back>rolling_back",
        ],
    )


def _create_deployments() -> None:
    op.create_table(
        "deployments",
        _name("deployment_id"),
        *_status("deployments", "deployment", "pending", "provisioning", "running", "destroying", "terminated"),
        *[_name(name) for name in ("name", "user", "group", "domain", "access_key")],
        sa.Column("scaling_group", NAME),
        _number("replicas_desired"),
        _number("revision"),
        sa.Column("holding", sa.Boolean(), nullable=False),
        sa.Column("request_key", NAME),
        sa.Column("request_digest", NAME),
        _number("created_ms"),
        _number("since_ms"),
        sa.Column("ended_ms", sa.BigInteger()),
        _number("place"),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint("replicas_desired >= 0", name="ck_deployments_replicas"),
        sa.CheckConstraint("(ended_ms IS NULL) = (status <> 'terminated')", name="ck_deployments_ended"),
        sa.ForeignKeyConstraint(["scaling_group"], ["scaling_groups.name"], name="fk_deployments_scaling_group"),
        sa.PrimaryKeyConstraint("deployment_id", name="pk_deployments"),
        sa.UniqueConstraint("place", name="uq_deployments_place"),
    )
    _partial_index("uq_deployments_group_name", "deployments", ["group", "name"], "ended_ms IS NULL", unique=True)
    wanted = "request_key IS NOT NULL"
    _partial_index("uq_deployments_request", "deployments", ["access_key", "request_key"], wanted, unique=True)
    op.create_index("ix_deployments_user_place", "deployments", ["user", "place"], unique=False)


def _create_revisions() -> None:
    op.create_table(
        "deployment_revisions",
        _name("deployment_id"),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        _number("created_ms"),
        _name("created_by"),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint("number >= 1", name="ck_deployment_revisions_number"),
        _of_deployment("deployment_revisions"),
        sa.PrimaryKeyConstraint("deployment_id", "number", name="pk_deployment_revisions"),
    )


def _create_replicas() -> None:
    statuses = ("pending", "starting", "warming", "active", "unhealthy", "draining", "stopping", "failed", "gone")
    op.create_table(
        "replicas",
        _name("replica_id"),
        _name("deployment_id"),
        *[_number(name) for name in ("revision", "ordinal", "attempt")],
        *_status("replicas", "replica", *statuses),
        sa.Column("session_id", NAME),
        sa.Column("endpoint", sa.Text()),
        _name("secret"),
        _name("reason_code"),
        sa.Column("reason", sa.Text(), nullable=False),
        _number("since_ms"),
        _of_deployment("replicas"),
        sa.PrimaryKeyConstraint("replica_id", name="pk_replicas"),
        sa.UniqueConstraint("session_id", name="uq_replicas_session_id"),
        sa.UniqueConstraint(
            "deployment_id",
            "revision",
            "ordinal",
            "attempt",
            name="uq_replicas_deployment_id_revision_ordinal_attempt",
        ),
    )
    live = "status NOT IN ('failed', 'gone')"
    _partial_index("ix_replicas_live", "replicas", ["deployment_id"], live, unique=False)


def _create_rollouts() -> None:
    statuses = ("planning", "progressing", "awaiting_promotion", "promoting", "rolling_back", "completed")
    numbers = ("revision_from", "revision_to", "surge", "unavailable", "step", "weight_new")
    op.create_table(
        "rollouts",
        _name("rollout_id"),
        _name("deployment_id"),
        *_status("rollouts", "rollout", *statuses, "rolled_back"),
        _name("strategy"),
        *[_number(name) for name in (*numbers, "started_ms", "since_ms", "step_since_ms")],
        sa.Column("reason", sa.Text(), nullable=False),
        _of_deployment("rollouts"),
        sa.PrimaryKeyConstraint("rollout_id", name="pk_rollouts"),
    )
    live = "status NOT IN ('completed', 'rolled_back')"
    _partial_index("uq_rollouts_live", "rollouts", ["deployment_id"], live, unique=True)
    columns = ["deployment_id", "started_ms"]
    op.create_index("ix_rollouts_deployment_id_started_ms", "rollouts", columns, unique=False)


def _create_routes() -> None:
    op.create_table(
        "routes",
        _name("route_id"),
        _name("deployment_id"),
        *_status("routes", "route", "pending", "provisioning", "running", "error", "terminating", "terminated"),
        sa.Column("entry", sa.Text(), nullable=False),
        _number("table_version"),
        _number("since_ms"),
        _of_deployment("routes"),
        sa.PrimaryKeyConstraint("route_id", name="pk_routes"),
        sa.UniqueConstraint("deployment_id", name="uq_routes_deployment_id"),
    )
    op.create_index("ix_routes_table_version", "routes", ["table_version"], unique=False)
    op.create_table(
        "serving_table",
        _name("name"),
        _name("epoch"),
        _number("version"),
        sa.PrimaryKeyConstraint("name", name="pk_serving_table"),
    )


def _create_tokens() -> None:
    op.create_table(
        "endpoint_tokens",
        _name("token_id"),
        _name("deployment_id"),
        _name("digest"),
        _number("created_ms"),
        _name("created_by"),
        sa.Column("revoked_ms", sa.BigInteger()),
        _number("table_version"),
        sa.Column("body", sa.Text(), nullable=False),
        _of_deployment("endpoint_tokens"),
        sa.PrimaryKeyConstraint("token_id", name="pk_endpoint_tokens"),
        sa.UniqueConstraint("digest", name="uq_endpoint_tokens_digest"),
    )
    for column in ("deployment_id", "table_version"):
        op.create_index(f"ix_endpoint_tokens_{column}", "endpoint_tokens", [column], unique=False)


def _create_proxies() -> None:
    op.create_table(
        "proxies",
        _name("proxy_id"),
        _number("incarnation"),
        _name("epoch"),
        *[_number(name) for name in ("version", "reported_ms", "usage_sequence")],
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("proxy_id", name="pk_proxies"),
    )
    op.create_index("ix_proxies_reported_ms", "proxies", ["reported_ms"], unique=False)
    counts = ("requests", "failed", "input_tokens", "output_tokens", "estimated_requests", "estimated_tokens")
    op.create_table(
        "endpoint_usage",
        sa.Column("minute", sa.BigInteger(), autoincrement=False, nullable=False),
        _name("key_id"),
        _name("deployment_id"),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        *[_number(name) for name in counts],
        sa.PrimaryKeyConstraint("minute", "key_id", "deployment_id", "revision", name="pk_endpoint_usage"),
    )


def _name(name: str) -> sa.Column[Any]:
    return sa.Column(name, NAME, nullable=False)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _status(table: str, kind: str, *statuses: str) -> list[Any]:
    key = f"{kind}_id"
    return [
        _name("status"),
        _number("version"),
        _number("history_sequence"),
        sa.CheckConstraint(f"status IN ({words(*statuses)})", name=f"ck_{table}_status"),
        sa.ForeignKeyConstraint(
            [key, "history_sequence", "status"],
            [f"{kind}_history.{column}" for column in ("object_id", "sequence", "after")],
            name=f"fk_{table}_{key}_history_sequence_status",
        ),
    ]


def _of_deployment(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["deployment_id"], ["deployments.deployment_id"], name=f"fk_{table}_deployment_id")


def _partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=condition, sqlite_where=condition)
