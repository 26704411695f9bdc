"""The topology as one document, and labels that operators give agents."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from sokovan.adapters.sql.schema.migration_forms import NAME

revision = "0015"
down_revision: str | None = "0014"

_NAME = "topology"


def upgrade() -> None:
    """Put all HyperNodes into one document; add the column of labels."""
    connection = op.get_bind()
    nodes = [json.loads(row.body) for row in connection.execute(sa.text("SELECT body FROM hypernodes ORDER BY name"))]
    op.drop_table("hypernodes")
    op.create_table(
        "topology",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_topology"),
    )
    if nodes:
        # One name for each tier: HyperNodes of one tier could have several, which they keep.
        names = {node["tier"]: node["tier_name"] for node in nodes if node.get("tier_name")}
        tiers = [{"tier": tier, "name": names[tier], "label": None} for tier in sorted(names)]
        _insert("topology", _NAME, {"tiers": tiers, "hypernodes": nodes})
    op.add_column("agents", sa.Column("operator_labels", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    """Store the listed HyperNodes one by one; labels of operators and rules are lost."""
    connection = op.get_bind()
    op.drop_column("agents", "operator_labels")
    bodies = [json.loads(row.body) for row in connection.execute(sa.text("SELECT body FROM topology"))]
    op.drop_table("topology")
    op.create_table(
        "hypernodes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_hypernodes"),
    )
    for node in (node for body in bodies for node in body["hypernodes"]):
        _insert("hypernodes", node["name"], node)


def _insert(table: str, name: str, body: object) -> None:
    rows = sa.table(table, sa.column("name"), sa.column("body"))
    op.execute(sa.insert(rows).values(name=name, body=json.dumps(body)))
