"""The catalog, written by administrators."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0002"
down_revision: str | None = "0001"


def upgrade() -> None:
    """Create the tables, those that others refer to first."""
    _create_resource_policies()
    _create_domains()
    _create_groups()
    _create_users()
    _create_keypairs()
    _create_scaling_groups()
    _create_queues()
    _create_hypernodes()
    _create_images()


def downgrade() -> None:
    """Remove the tables, those that refer to others first."""
    for table in (
        "images",
        "hypernodes",
        "queues",
        "scaling_groups",
        "keypairs",
        "users",
        "groups",
        "domains",
        "resource_policies",
    ):
        op.drop_table(table)


def _create_resource_policies() -> None:
    op.create_table(
        "resource_policies",
        sa.Column("name", NAME, nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_resource_policies"),
    )


def _create_domains() -> None:
    op.create_table(
        "domains",
        sa.Column("name", NAME, nullable=False),
        sa.Column("policy", NAME, nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["policy"], ["resource_policies.name"], name="fk_domains_policy"),
        sa.PrimaryKeyConstraint("name", name="pk_domains"),
    )


def _create_groups() -> None:
    op.create_table(
        "groups",
        sa.Column("name", NAME, nullable=False),
        sa.Column("domain", NAME, nullable=False),
        sa.Column("policy", NAME, nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["domain"], ["domains.name"], name="fk_groups_domain"),
        sa.ForeignKeyConstraint(["policy"], ["resource_policies.name"], name="fk_groups_policy"),
        sa.PrimaryKeyConstraint("name", name="pk_groups"),
    )


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("name", NAME, nullable=False),
        sa.Column("domain", NAME, nullable=False),
        sa.Column("policy", NAME, nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["domain"], ["domains.name"], name="fk_users_domain"),
        sa.ForeignKeyConstraint(["policy"], ["resource_policies.name"], name="fk_users_policy"),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )


def _create_keypairs() -> None:
    op.create_table(
        "keypairs",
        sa.Column("name", NAME, nullable=False),
        sa.Column("user", NAME, nullable=False),
        sa.Column("policy", NAME, nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["policy"], ["resource_policies.name"], name="fk_keypairs_policy"),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name="fk_keypairs_user"),
        sa.PrimaryKeyConstraint("name", name="pk_keypairs"),
    )


def _create_scaling_groups() -> None:
    op.create_table(
        "scaling_groups",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_scaling_groups"),
    )


def _create_queues() -> None:
    op.create_table(
        "queues",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_queues"),
    )


def _create_hypernodes() -> None:
    op.create_table(
        "hypernodes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_hypernodes"),
    )


def _create_images() -> None:
    op.create_table(
        "images",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_images"),
    )
