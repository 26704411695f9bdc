"""Many sessions at once, made from one that was enqueued in the ordinary way."""

from collections.abc import Sequence

import sqlalchemy as sa

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.rows import TEXT, WHOLE, Rows
from sokovan.adapters.sql.sessions import PLACES_PER_UNIT
from sokovan.adapters.sql.store import RetryRule, SqlStore, SqlUnitOfWork
from sokovan.adapters.sql.tables import KERNEL_HISTORY, KERNELS, SESSION_HISTORY, SESSIONS
from sokovan.testing.stored_cluster import StoredCluster


def store_at(url: str, *, retry: RetryRule | None = None, **settings: object) -> SqlStore:
    """A store with connections of its own on a database that has its schema already."""
    clock = SystemClock()
    database = Database(DatabaseSettings(url, **settings), clock=clock)  # type: ignore[arg-type]  # by name
    return SqlStore(database, ids=SortableIds(clock), retry=retry)


async def submit_many(cluster: StoredCluster, names: Sequence[str], *, kernels: int = 1, cpu: int = 1000) -> None:
    """Sessions of equal kernels, waiting; thousands take no longer than a few one by one."""
    template = f"template-{kernels}-{cpu}"
    await cluster.submit(template, kernels=kernels, slots={"cpu": cpu})
    await cluster.store.run_sql(lambda unit: _copy(unit, template, names))
    await cluster.stop(template)


async def _copy(unit: SqlUnitOfWork, template: str, names: Sequence[str]) -> None:
    transaction = unit.transaction
    copies = Rows("copies", {"name": TEXT, "number": WHOLE}, postgresql=transaction.postgresql)
    of_template = sa.select(KERNELS.c.kernel_id).where(KERNELS.c.session_id == template)
    sources = {
        SESSION_HISTORY: SESSION_HISTORY.c.object_id == template,
        SESSIONS: SESSIONS.c.session_id == template,
        KERNEL_HISTORY: KERNEL_HISTORY.c.object_id.in_(of_template),
        KERNELS: KERNELS.c.session_id == template,
    }
    other = {
        "place": copies.c.number + transaction.number * PLACES_PER_UNIT,
        "stamp": sa.literal(transaction.stamp, sa.BigInteger),
    }
    named = {"object_id", "session_id", "kernel_id", "body"}
    for table, where in sources.items():
        values = [
            sa.func.replace(column, template, copies.c.name) if column.name in named else other.get(column.name, column)
            for column in table.columns
        ]
        chosen = sa.select(*values).select_from(sa.join(table, copies.table, sa.true())).where(where)
        statement = sa.insert(table).from_select([column.name for column in table.columns], chosen)
        rows = copies.bind([(name, number) for number, name in enumerate(names, start=1)])
        await transaction.execute(statement, rows)
