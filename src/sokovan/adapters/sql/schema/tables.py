"""The tables, with constraints that enforce the invariants.

A status references its history: each object has the number of the last row in its
history table, and a foreign key requires that row to have the same status. Each
history row references the previous one, whose `after` must equal its `before`, and a
CHECK generated from the lifecycle table lists the legal moves. So an illegal move, a
gap, or a status without a history row does not commit.
"""

from __future__ import annotations

import sqlalchemy as sa

from sokovan.adapters.sql.schema.array_tables import array_tables
from sokovan.adapters.sql.schema.columns import Amount, Identity, Name, status_check
from sokovan.adapters.sql.schema.history_tables import follows_history, history_table
from sokovan.adapters.sql.schema.serving_tables import serving_tables
from sokovan.domain.lifecycle.agent import AGENT
from sokovan.domain.lifecycle.kernel import HOLDS_SLOTS, KERNEL, FreeProof, KernelStatus
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.domain.owners.policy import Scope
from sokovan.domain.records import SessionResult
from sokovan.domain.session import SessionType
from sokovan.ports.repositories.ledger import SESSIONS_HELD

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# ---------------------------------------------------------------------------------------------------------------
# The catalog, written by administrators: a name, references, and the rest as JSON.


def _catalog(name: str, *columns: sa.Column[str]) -> sa.Table:
    return sa.Table(name, METADATA, sa.Column("name", Name, primary_key=True), *columns, _body())


def _body() -> sa.Column[str]:
    return sa.Column("body", sa.Text, nullable=False)


def _refers(column: str, target: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(column, Name, sa.ForeignKey(target), nullable=nullable)


POLICIES = sa.Table(
    "resource_policies",
    METADATA,
    sa.Column("name", Name, primary_key=True),
    # Lowering a limit takes nothing from owners that hold more; the auditor checks only later allocations.
    sa.Column("changed_ms", Amount, nullable=False),
    _body(),
)
DOMAINS = _catalog("domains", _refers("policy", "resource_policies.name", nullable=True))
GROUPS = _catalog(
    "groups", _refers("domain", "domains.name"), _refers("policy", "resource_policies.name", nullable=True)
)
USERS = _catalog("users", _refers("domain", "domains.name"), _refers("policy", "resource_policies.name", nullable=True))
KEYPAIRS = _catalog(
    "keypairs", _refers("user", "users.name"), _refers("policy", "resource_policies.name", nullable=True)
)
# A keyed digest of a token; the token itself is never stored. Deleted with its keypair.
CREDENTIALS = sa.Table(
    "credentials",
    METADATA,
    sa.Column("access_key", Name, sa.ForeignKey("keypairs.name", ondelete="CASCADE"), primary_key=True),
    sa.Column("digest", Name, nullable=False, unique=True),
    sa.Column("created_ms", Amount, nullable=False),
)
SCALING_GROUPS = _catalog("scaling_groups")
QUEUES = _catalog("queues")
TOPOLOGY = _catalog("topology")
IMAGES = _catalog("images")
JOIN_TOKENS = _catalog("join_tokens")
AGENT_GRANTS = _catalog("agent_grants")
BOOKINGS = _catalog("bookings")
LOGINS = _catalog("logins")
LOGIN_CODES = _catalog("login_codes")
# The stamp of the last change of each small table, so that readers reload it only then.
CATALOG_MARKS = sa.Table(
    "catalog_marks",
    METADATA,
    sa.Column("kind", Name, primary_key=True),
    sa.Column("stamp", Amount, nullable=False),
)

# ---------------------------------------------------------------------------------------------------------------
# Agents: capacity and usage.

AGENT_HISTORY = history_table(METADATA, AGENT)
AGENTS = sa.Table(
    "agents",
    METADATA,
    sa.Column("agent_id", Name, primary_key=True),
    _refers("scaling_group", "scaling_groups.name"),
    *follows_history(AGENT, "agent_id"),
    sa.Column("incarnation", Amount, nullable=False),
    sa.Column("draining", sa.Boolean, nullable=False),
    sa.Column("architecture", Name, nullable=False),
    sa.Column("shard", Name),
    sa.Column("kernels_max", Amount),
    sa.Column("kernel_count", Amount, nullable=False),
    # As reported at enrolment; those that an operator set are kept apart, and have precedence.
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("operator_labels", sa.Text, nullable=False, server_default="{}"),
    sa.Column("cached_images", sa.Text, nullable=False),
    sa.Column("health", sa.Text, nullable=False, server_default="{}"),
    sa.Column("enrolled_ms", Amount, nullable=False),
    sa.Column("stamp", Amount, nullable=False, index=True),
    sa.CheckConstraint("incarnation >= 1", name="incarnation"),
    sa.CheckConstraint("kernel_count >= 0", name="kernel_count"),
)
AGENT_SLOTS = sa.Table(
    "agent_slots",
    METADATA,
    sa.Column("agent_id", Name, sa.ForeignKey("agents.agent_id"), primary_key=True),
    sa.Column("slot", Name, primary_key=True),
    sa.Column("capacity", Amount, nullable=False),
    # The capacity that the agent last reported. `capacity` exceeds it while kernels still hold more.
    sa.Column("reported", Amount, nullable=False),
    sa.Column("used", Amount, nullable=False),
    sa.CheckConstraint("0 <= used AND used <= capacity", name="no_overcommit"),
    sa.CheckConstraint("0 <= reported AND reported <= capacity", name="reported"),
)
AGENT_DEVICES = sa.Table(
    "agent_devices",
    METADATA,
    sa.Column("agent_id", Name, sa.ForeignKey("agents.agent_id"), primary_key=True),
    sa.Column("device_id", Name, primary_key=True),
    sa.Column("slot", Name, nullable=False),
    sa.Column("units", Amount, nullable=False),
    sa.Column("used", Amount, nullable=False),
    sa.Column("present", sa.Boolean, nullable=False),
    sa.CheckConstraint("units >= 1 AND 0 <= used AND used <= units", name="no_overcommit"),
)

# ---------------------------------------------------------------------------------------------------------------
# Sessions and kernels.

SESSION_HISTORY = history_table(METADATA, SESSION)
SESSIONS = sa.Table(
    "sessions",
    METADATA,
    sa.Column("session_id", Name, primary_key=True),
    # The name given by the owner, or empty.
    sa.Column("name", Name, nullable=False, server_default=""),
    # The order of submission, and the position in a listing.
    sa.Column("place", Amount, nullable=False, unique=True),
    *follows_history(SESSION, "session_id"),
    sa.Column("goal", sa.SmallInteger, nullable=False),
    sa.Column("session_type", Name, nullable=False),
    _refers("scaling_group", "scaling_groups.name"),
    sa.Column("queue", Name, nullable=False),
    sa.Column("user", Name, nullable=False),
    sa.Column("group", Name, nullable=False),
    sa.Column("domain", Name, nullable=False),
    sa.Column("access_key", Name, nullable=False),
    sa.Column("required", Amount, nullable=False),
    sa.Column("submitted_ms", Amount, nullable=False),
    # When the current status began; deadlines count from here.
    sa.Column("since_ms", Amount, nullable=False),
    sa.Column("scheduled_ms", Amount),
    sa.Column("ended_ms", Amount),
    sa.Column("cause", Name),
    sa.Column("cause_detail", sa.Text),
    sa.Column("result", Name),
    sa.Column("hypernode", Name),
    # The attempts to start it that failed, as JSON.
    sa.Column("failed_starts", sa.Text, nullable=False, server_default="[]"),
    sa.Column("group_domains", sa.Text, nullable=False, server_default="{}"),
    # Its last evictions, as JSON; and when it last reported that its work is saved.
    sa.Column("evictions", sa.Text, nullable=False, server_default="[]"),
    sa.Column("checkpoint_ms", Amount),
    # The queue that lends it what it runs on, or ran on last.
    sa.Column("loan", Name),
    # The session that was enqueued in its place.
    sa.Column("replaced_by", Name),
    sa.Column("stamp", Amount, nullable=False, index=True),
    # The array it counts in; null for others, and for one that another session replaced. The array's row is written
    # before, in the same transaction, and removed with its last session, so it needs no foreign key.
    sa.Column("array_id", Name),
    # Its secret variables, encrypted; empty without any, and after its end.
    sa.Column("sealed", sa.Text, nullable=False, server_default=""),
    _body(),
    # The part of the spec that lists show; empty if the spec is short, and in rows from before.
    sa.Column("summary", sa.Text, nullable=False, server_default=""),
    # The sizes that lists are sorted by: its kernels, and its accelerators in thousandths.
    sa.Column("size", Amount, nullable=False, server_default="0"),
    sa.Column("devices", Amount, nullable=False, server_default="0"),
    sa.CheckConstraint("goal IN (0, 1, 2)", name="goal"),
    sa.CheckConstraint("required >= 1", name="required"),
    status_check("session_type", SessionType),
    status_check("result", SessionResult),
    sa.CheckConstraint("(result IS NULL) = (cause IS NULL)", name="cause"),
    sa.CheckConstraint("(ended_ms IS NULL) = (status NOT IN ('terminated', 'cancelled'))", name="ended"),
)
sa.Index("ix_sessions_status_place", SESSIONS.c.status, SESSIONS.c.place)
sa.Index("ix_sessions_user_place", SESSIONS.c.user, SESSIONS.c.place)
_ENDED = sa.text("ended_ms IS NOT NULL")
sa.Index("ix_sessions_ended_ms", SESSIONS.c.ended_ms, postgresql_where=_ENDED, sqlite_where=_ENDED)
# Literals, not parameters: a database uses a partial index only if the query visibly implies its condition.
EVICTED = SESSIONS.c.evictions != sa.literal_column("'[]'")
_EVICTED = sa.text("ended_ms IS NOT NULL AND evictions <> '[]'")
sa.Index("ix_sessions_evicted", SESSIONS.c.ended_ms, postgresql_where=_EVICTED, sqlite_where=_EVICTED)
NAMED = SESSIONS.c.name != sa.literal_column("''")
_NAMED = sa.text("name <> ''")
sa.Index("ix_sessions_name_place", SESSIONS.c.name, SESSIONS.c.place, postgresql_where=_NAMED, sqlite_where=_NAMED)
# Names are unique among the live sessions of a user, and can be reused after the end.
_NAMED_AND_LIVE = sa.text("name <> '' AND ended_ms IS NULL")
sa.Index(
    "uq_sessions_user_name",
    SESSIONS.c.user,
    SESSIONS.c.name,
    unique=True,
    postgresql_where=_NAMED_AND_LIVE,
    sqlite_where=_NAMED_AND_LIVE,
)
# For lookups by an id prefix, which match live sessions only: they are few among all.
_LIVE = sa.text("ended_ms IS NULL")
sa.Index("ix_sessions_live", SESSIONS.c.session_id, postgresql_where=_LIVE, sqlite_where=_LIVE)
_IN_ARRAY = sa.text("array_id IS NOT NULL")
sa.Index(
    "ix_sessions_array_id_status",
    SESSIONS.c.array_id,
    SESSIONS.c.status,
    SESSIONS.c.result,
    postgresql_where=_IN_ARRAY,
    sqlite_where=_IN_ARRAY,
)
VERDICTS = sa.Table(
    "verdicts",
    METADATA,
    sa.Column("session_id", Name, sa.ForeignKey("sessions.session_id"), primary_key=True),
    sa.Column("code", Name, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    # First time, last time and number of consecutive verdicts with this code.
    sa.Column("first_ms", Amount, nullable=False),
    sa.Column("last_ms", Amount, nullable=False),
    sa.Column("times", Amount, nullable=False),
    # Since when no quota, dependency or start time holds the session; null while one does.
    sa.Column("eligible_ms", Amount, nullable=True, index=True),
    sa.CheckConstraint("times >= 1", name="times"),
)
DEPENDENCIES = sa.Table(
    "session_dependencies",
    METADATA,
    sa.Column("session_id", Name, sa.ForeignKey("sessions.session_id"), primary_key=True),
    sa.Column("depends_on", Name, sa.ForeignKey("sessions.session_id"), primary_key=True, index=True),
)
ARRAYS, ARRAY_DEPENDENCIES = array_tables(METADATA)
_PLACED = ", ".join(f"'{status}'" for status in sorted({*HOLDS_SLOTS, KernelStatus.TERMINATED}))
KERNEL_HISTORY = history_table(METADATA, KERNEL)
KERNELS = sa.Table(
    "kernels",
    METADATA,
    sa.Column("kernel_id", Name, primary_key=True),
    sa.Column("session_id", Name, sa.ForeignKey("sessions.session_id"), nullable=False),
    sa.Column("index", Amount, nullable=False),
    *follows_history(KERNEL, "kernel_id"),
    sa.Column("attempt", Amount, nullable=False),
    sa.Column("since_ms", Amount, nullable=False),
    # No foreign key: the agent is locked when this is written, and agents are never removed.
    sa.Column("agent_id", Name),
    sa.Column("incarnation", Amount),
    # Whether the create request may have been sent: from then on only a proof from the agent frees the kernel.
    sa.Column("sent", sa.Boolean, nullable=False),
    # Given with the first allocation, and kept: the environment of other kernels is based on it.
    sa.Column("rank", Amount),
    sa.Column("exit_code", Amount),
    # The follow-up of the end of a kernel that ends alone, while its session runs.
    sa.Column("follow_up", Name),
    sa.Column("slots", sa.Text, nullable=False),
    sa.Column("architecture", Name, nullable=False),
    sa.Column("require", sa.Text, nullable=False),
    sa.Column("devices", sa.Text, nullable=False),
    # Requested service ports by name, 0 for any; and the ports of the agent that were leased, kept after the end.
    sa.Column("ports", sa.Text, nullable=False, server_default="{}"),
    sa.Column("host_ports", sa.Text, nullable=False, server_default="{}"),
    sa.UniqueConstraint("session_id", "index", "attempt"),
    sa.CheckConstraint(f"(agent_id IS NOT NULL) = (status IN ({_PLACED}))", name="placed"),
    sa.CheckConstraint("(agent_id IS NULL) = (incarnation IS NULL)", name="incarnation"),
)
sa.Index(
    "ix_kernels_agent_live",
    KERNELS.c.agent_id,
    postgresql_where=sa.text("status NOT IN ('pending', 'cancelled', 'terminated')"),
    sqlite_where=sa.text("status NOT IN ('pending', 'cancelled', 'terminated')"),
)

# ---------------------------------------------------------------------------------------------------------------
# The ledger.

# A ledger row, its kernel and the agent's usage are written together by statements with checked row counts
# (`transitions`, `usage`), so the rows need no foreign keys, which doubled the time of the insert.
HELD_SLOTS = sa.Table(
    "held_slots",
    METADATA,
    sa.Column("kernel_id", Name, primary_key=True),
    sa.Column("slot", Name, primary_key=True),
    sa.Column("agent_id", Name, nullable=False),
    sa.Column("incarnation", Amount, nullable=False),
    sa.Column("amount", Amount, nullable=False),
    sa.Column("held_ms", Amount, nullable=False),
    sa.Column("freed_ms", Amount),
    sa.Column("proof", Name),
    sa.Column("attempt", Amount, primary_key=True, autoincrement=False, server_default="1"),
    sa.CheckConstraint("amount > 0", name="amount"),
    sa.CheckConstraint("(freed_ms IS NULL) = (proof IS NULL)", name="proven"),
    status_check("proof", FreeProof),
)
_LIVE_EXCLUSIVE = sa.text("freed_ms IS NULL AND exclusive")
HELD_DEVICES = sa.Table(
    "held_devices",
    METADATA,
    sa.Column("kernel_id", Name, primary_key=True),
    sa.Column("device_id", Name, primary_key=True),
    sa.Column("agent_id", Name, nullable=False, index=True),
    sa.Column("units", Amount, nullable=False),
    sa.Column("exclusive", sa.Boolean, nullable=False),
    sa.Column("freed_ms", Amount),
    sa.Column("attempt", Amount, primary_key=True, autoincrement=False, server_default="1"),
    sa.CheckConstraint("units > 0", name="units"),
)
sa.Index(
    "uq_held_devices_exclusive",
    HELD_DEVICES.c.agent_id,
    HELD_DEVICES.c.device_id,
    unique=True,
    postgresql_where=_LIVE_EXCLUSIVE,
    sqlite_where=_LIVE_EXCLUSIVE,
)
# A port of an agent is leased with the slots of a kernel, freed with them, and not leased again for PORT_REST_MS.
HELD_PORTS = sa.Table(
    "held_ports",
    METADATA,
    sa.Column("agent_id", Name, primary_key=True),
    sa.Column("port", Amount, primary_key=True, autoincrement=False),
    sa.Column("held_ms", Amount, primary_key=True, autoincrement=False),
    sa.Column("kernel_id", Name, nullable=False, index=True),
    sa.Column("name", Name, nullable=False),
    sa.Column("freed_ms", Amount),
    sa.CheckConstraint("port BETWEEN 1 AND 65535", name="port"),
)
_LIVE_PORT = sa.text("freed_ms IS NULL")
sa.Index(
    "uq_held_ports_live",
    HELD_PORTS.c.agent_id,
    HELD_PORTS.c.port,
    unique=True,
    postgresql_where=_LIVE_PORT,
    sqlite_where=_LIVE_PORT,
)
PORT_REST_MS = 60_000
OWNER_USAGE = sa.Table(
    "owner_usage",
    METADATA,
    sa.Column("scope", Name, primary_key=True),
    sa.Column("name", Name, primary_key=True),
    # A slot, or SESSIONS_SLOT for the number of sessions that hold slots.
    sa.Column("slot", Name, primary_key=True),
    sa.Column("used", Amount, nullable=False),
    sa.Column("stamp", Amount, nullable=False, index=True),
    sa.CheckConstraint("used >= 0", name="used"),
    status_check("scope", Scope),
)
SESSIONS_SLOT = SESSIONS_HELD
# One row per owner and slot for all its sessions: the decayed amount as of `at_ms`, and the slots held since.
PAST_USAGE = sa.Table(
    "past_usage",
    METADATA,
    sa.Column("scaling_group", Name, primary_key=True),
    sa.Column("scope", Name, primary_key=True),
    sa.Column("name", Name, primary_key=True),
    sa.Column("slot", Name, primary_key=True),
    sa.Column("amount", Amount, nullable=False),
    sa.Column("held", Amount, nullable=False),
    sa.Column("at_ms", Amount, nullable=False),
    sa.Column("stamp", Amount, nullable=False, index=True),
    sa.CheckConstraint("amount >= 0", name="amount"),
    sa.CheckConstraint("held >= 0", name="held"),
    status_check("scope", UsageScope),
)

# ---------------------------------------------------------------------------------------------------------------
# Deployments, replicas, routes and proxies.

SERVING = serving_tables(METADATA)
DEPLOYMENTS, ROUTES = SERVING.deployments, SERVING.routes

# ---------------------------------------------------------------------------------------------------------------
# Safe writes: exactly once, by one leader, with an outbox for events.

COMMITS = sa.Table(
    "commits",
    METADATA,
    sa.Column("sequence", Identity, primary_key=True, autoincrement=True),
    sa.Column("commit_id", Name, nullable=False, unique=True),
    sa.Column("at_ms", Amount, nullable=False, index=True),
    sqlite_autoincrement=True,
)
REQUESTS = sa.Table(
    "idempotency_keys",
    METADATA,
    sa.Column("scope", Name, primary_key=True),
    sa.Column("key", Name, primary_key=True),
    sa.Column("digest", Name, nullable=False),
    # Deferred to the commit: the key is inserted first, so that a concurrent equal request waits on it.
    sa.Column(
        "session_id",
        Name,
        sa.ForeignKey("sessions.session_id", deferrable=True, initially="DEFERRED"),
        nullable=False,
        index=True,
    ),
    sa.Column("at_ms", Amount, nullable=False, index=True),
)
LEASES = sa.Table(
    "leases",
    METADATA,
    sa.Column("name", Name, primary_key=True),
    sa.Column("holder", Name, nullable=False),
    sa.Column("epoch", Amount, nullable=False),
    sa.Column("expires_ms", Amount, nullable=False),
    sa.CheckConstraint("epoch >= 1", name="epoch"),
)
LEASE_TERMS = sa.Table(
    "lease_terms",
    METADATA,
    sa.Column("name", Name, primary_key=True),
    sa.Column("epoch", Amount, primary_key=True),
    sa.Column("holder", Name, nullable=False),
    sa.Column("since_ms", Amount, nullable=False),
)
OUTBOX = sa.Table(
    "outbox",
    METADATA,
    sa.Column("sequence", Identity, primary_key=True, autoincrement=True),
    sa.Column("at_ms", Amount, nullable=False),
    sa.Column("events", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
AUDIT_LOG = sa.Table(
    "audit_log",
    METADATA,
    sa.Column("sequence", Amount, primary_key=True, autoincrement=False),
    sa.Column("at_ms", Amount, nullable=False),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Column("previous", Name, nullable=False, unique=True),
    sa.Column("digest", Name, nullable=False),
)

# ---------------------------------------------------------------------------------------------------------------
# State carried between scheduling cycles.

RESERVATIONS = sa.Table(
    "reservations",
    METADATA,
    sa.Column("scaling_group", Name, primary_key=True),
    sa.Column("kernel_id", Name, sa.ForeignKey("kernels.kernel_id"), primary_key=True),
    sa.Column("session_id", Name, nullable=False),
    sa.Column("agent_id", Name, nullable=False),
    sa.Column("rank", Amount, nullable=False),
    # The time from which on the room is held; null if it is being released already.
    sa.Column("starts_ms", Amount),
)
CURSORS = sa.Table(
    "cursors",
    METADATA,
    sa.Column("scaling_group", Name, primary_key=True),
    sa.Column("name", Name, primary_key=True),
    sa.Column("agent_id", Name, nullable=False),
)

HISTORIES = {
    table.name: history
    for table, history in (
        (SESSION, SESSION_HISTORY),
        (KERNEL, KERNEL_HISTORY),
        (AGENT, AGENT_HISTORY),
    )
} | SERVING.histories
