"""Addresses of databases, as the drivers want them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from sokovan.domain.errors import InvalidInput, quoted

# The name of managers' connections at PostgreSQL.
MANAGER_APPLICATION = "sokovan"


class UnknownDatabase(InvalidInput):
    """The storage address does not name a supported database."""

    code = "unknown-database"
    hint = "use sqlite:///path/to/state.db, sqlite:// (in memory) or postgresql://user@host/name"


def driver_url(text: str) -> URL:
    """The address with the name of our driver. Raises UnknownDatabase."""
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError) as error:  # ValueError: the port is not a number
        raise UnknownDatabase(f"{quoted(_without_password(text))} is not the address of a database") from error
    backend = url.get_backend_name()
    if backend in {"postgres", "postgresql"}:
        return _postgresql_url(url)
    if backend == "sqlite":
        return url.set(drivername="sqlite+aiosqlite")
    raise UnknownDatabase(f"{quoted(backend)} is not a supported database")


def _postgresql_url(url: URL) -> URL:
    """The URL for the driver, which calls `sslmode` `ssl` and fails on unknown options."""
    options = {"ssl" if name == "sslmode" else name: value for name, value in url.query.items()}
    unknown = sorted(set(options) - {"ssl"})
    if unknown:
        raise UnknownDatabase(f"{quoted(unknown[0])} is not an option of a PostgreSQL address; sslmode is the only one")
    return url.set(drivername="postgresql+asyncpg", query=options)


def _without_password(text: str) -> str:
    """The address without user and password, for error messages."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
