"""The tables of deployments, replicas, rollouts, routes, tokens and proxies."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from sokovan.adapters.sql.schema.columns import Amount, Name
from sokovan.adapters.sql.schema.history_tables import follows_history, history_table
from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE

_OWNER = ("user", "group", "domain", "access_key")
USAGE_COUNTS = ("requests", "failed", "input_tokens", "output_tokens", "estimated_requests", "estimated_tokens")


class ServingTables(NamedTuple):
    """The tables of serving, and the histories of its lifecycles by name."""

    deployments: sa.Table
    revisions: sa.Table
    replicas: sa.Table
    rollouts: sa.Table
    routes: sa.Table
    version: sa.Table
    tokens: sa.Table
    proxies: sa.Table
    usage: sa.Table
    budget_leases: sa.Table
    histories: dict[str, sa.Table]


def serving_tables(metadata: sa.MetaData) -> ServingTables:
    """Define the tables."""
    histories = {
        DEPLOYMENT.name: history_table(metadata, DEPLOYMENT),
        REPLICA.name: history_table(metadata, REPLICA),
        ROLLOUT.name: history_table(metadata, ROLLOUT),
        ROUTE.name: history_table(metadata, ROUTE),
    }
    return ServingTables(
        deployments=_deployments(metadata),
        revisions=_revisions(metadata),
        replicas=_replicas(metadata),
        rollouts=_rollouts(metadata),
        routes=sa.Table(
            "routes",
            metadata,
            sa.Column("route_id", Name, primary_key=True),
            _of_deployment(unique=True),
            *follows_history(ROUTE, "route_id"),
            # The entry as published to proxies, and the version of the table that has it.
            sa.Column("entry", sa.Text, nullable=False),
            sa.Column("table_version", Amount, nullable=False, index=True),
            sa.Column("since_ms", Amount, nullable=False),
        ),
        # One row: the version of the table of proxies. Its lock orders the versions by commit.
        version=sa.Table(
            "serving_table",
            metadata,
            sa.Column("name", Name, primary_key=True),
            sa.Column("epoch", Name, nullable=False),
            sa.Column("version", Amount, nullable=False),
        ),
        tokens=_tokens(metadata),
        proxies=sa.Table(
            "proxies",
            metadata,
            sa.Column("proxy_id", Name, primary_key=True),
            sa.Column("incarnation", Amount, nullable=False),
            sa.Column("epoch", Name, nullable=False),
            sa.Column("version", Amount, nullable=False),
            sa.Column("reported_ms", Amount, nullable=False, index=True),
            # Usage up to this number was ingested.
            sa.Column("usage_sequence", Amount, nullable=False),
            _body(),
        ),
        usage=_usage(metadata),
        budget_leases=_budget_leases(metadata),
        histories=histories,
    )


def _usage(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "endpoint_usage",
        metadata,
        sa.Column("minute", Amount, primary_key=True, autoincrement=False),
        sa.Column("key_id", Name, primary_key=True),
        sa.Column("deployment_id", Name, primary_key=True),
        sa.Column("revision", Amount, primary_key=True, autoincrement=False),
        *[sa.Column(name, Amount, nullable=False) for name in USAGE_COUNTS],
    )


def _budget_leases(metadata: sa.MetaData) -> sa.Table:
    """The tokens of a key in a month that each proxy may use, and those that it used."""
    return sa.Table(
        "budget_leases",
        metadata,
        sa.Column("key_id", Name, primary_key=True),
        sa.Column("month", Amount, primary_key=True, autoincrement=False),
        sa.Column("proxy_id", Name, primary_key=True),
        sa.Column("leased", Amount, nullable=False),
        sa.Column("used", Amount, nullable=False),
        sa.CheckConstraint("leased >= used", name="within_lease"),
    )


def _deployments(metadata: sa.MetaData) -> sa.Table:
    table = sa.Table(
        "deployments",
        metadata,
        sa.Column("deployment_id", Name, primary_key=True),
        *follows_history(DEPLOYMENT, "deployment_id"),
        sa.Column("name", Name, nullable=False),
        *[sa.Column(name, Name, nullable=False) for name in _OWNER],
        sa.Column("scaling_group", Name, sa.ForeignKey("scaling_groups.name")),
        sa.Column("replicas_desired", Amount, nullable=False),
        sa.Column("revision", Amount, nullable=False),
        sa.Column("holding", sa.Boolean, nullable=False),
        # The idempotency key of the request that created it, in the scope of its access key.
        sa.Column("request_key", Name),
        sa.Column("request_digest", Name),
        sa.Column("created_ms", Amount, nullable=False),
        sa.Column("since_ms", Amount, nullable=False),
        sa.Column("ended_ms", Amount),
        sa.Column("place", Amount, nullable=False, unique=True),
        _body(),
        sa.CheckConstraint("replicas_desired >= 0", name="replicas"),
        sa.CheckConstraint("(ended_ms IS NULL) = (status <> 'terminated')", name="ended"),
    )
    _partial("uq_deployments_group_name", table.c.group, table.c.name, where="ended_ms IS NULL", unique=True)
    _partial("uq_deployments_request", table.c.access_key, table.c.request_key, where="request_key IS NOT NULL")
    sa.Index("ix_deployments_user_place", table.c.user, table.c.place)
    return table


def _revisions(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "deployment_revisions",
        metadata,
        _of_deployment(primary_key=True),
        sa.Column("number", Amount, primary_key=True, autoincrement=False),
        sa.Column("created_ms", Amount, nullable=False),
        sa.Column("created_by", Name, nullable=False),
        _body(),
        sa.CheckConstraint("number >= 1", name="number"),
    )


def _replicas(metadata: sa.MetaData) -> sa.Table:
    table = sa.Table(
        "replicas",
        metadata,
        sa.Column("replica_id", Name, primary_key=True),
        _of_deployment(),
        sa.Column("revision", Amount, nullable=False),
        sa.Column("ordinal", Amount, nullable=False),
        sa.Column("attempt", Amount, nullable=False),
        *follows_history(REPLICA, "replica_id"),
        # No foreign key: sessions that ended long ago are removed.
        sa.Column("session_id", Name, unique=True),
        sa.Column("endpoint", sa.Text),
        sa.Column("secret", Name, nullable=False),
        sa.Column("reason_code", Name, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("since_ms", Amount, nullable=False),
        sa.UniqueConstraint("deployment_id", "revision", "ordinal", "attempt"),
    )
    _partial("ix_replicas_live", table.c.deployment_id, where="status NOT IN ('failed', 'gone')", unique=False)
    return table


def _rollouts(metadata: sa.MetaData) -> sa.Table:
    table = sa.Table(
        "rollouts",
        metadata,
        sa.Column("rollout_id", Name, primary_key=True),
        _of_deployment(),
        *follows_history(ROLLOUT, "rollout_id"),
        sa.Column("strategy", Name, nullable=False),
        *[
            sa.Column(name, Amount, nullable=False)
            for name in ("revision_from", "revision_to", "surge", "unavailable", "step", "weight_new")
        ],
        *[sa.Column(name, Amount, nullable=False) for name in ("started_ms", "since_ms", "step_since_ms")],
        sa.Column("reason", sa.Text, nullable=False),
    )
    # A deployment has one rollout at a time.
    _partial("uq_rollouts_live", table.c.deployment_id, where="status NOT IN ('completed', 'rolled_back')")
    sa.Index("ix_rollouts_deployment_id_started_ms", table.c.deployment_id, table.c.started_ms)
    return table


def _tokens(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "endpoint_tokens",
        metadata,
        sa.Column("token_id", Name, primary_key=True),
        _of_deployment(index=True),
        sa.Column("digest", Name, nullable=False, unique=True),
        sa.Column("created_ms", Amount, nullable=False),
        sa.Column("created_by", Name, nullable=False),
        sa.Column("revoked_ms", Amount),
        sa.Column("table_version", Amount, nullable=False, index=True),
        _body(),
    )


def _of_deployment(**options: Any) -> sa.Column[str]:
    return sa.Column("deployment_id", Name, sa.ForeignKey("deployments.deployment_id"), nullable=False, **options)


def _body() -> sa.Column[str]:
    return sa.Column("body", sa.Text, nullable=False)


def _partial(name: str, *columns: sa.Column[Any], where: str, unique: bool = True) -> None:
    condition = sa.text(where)
    sa.Index(name, *columns, unique=unique, postgresql_where=condition, sqlite_where=condition)
