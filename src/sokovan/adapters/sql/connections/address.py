"""Addresses of databases, as the drivers want them."""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from sokovan.domain.errors import InvalidInput, quoted

# The name of managers' connections at PostgreSQL.
MANAGER_APPLICATION = "sokovan"

# Servers that an address may name: a primary and its standbys.
HOSTS_MAX = 8
_SEVERAL = re.compile(
    r"postgres(?:ql)?(?:\+\w+)?://(?:(?P<user>[^/?]*)@)?(?P<hosts>[^/?@]*,[^/?@]*)(?P<rest>[/?].*)?", re.DOTALL
)
_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
# With several servers the one that is not a standby is used. libpq has two names for that.
_TARGET = "target_session_attrs="
_PRIMARY = frozenset({"read-write", "primary"})


class UnknownDatabase(InvalidInput):
    """The storage address does not name a supported database."""

    code = "unknown-database"
    hint = "use sqlite:///path/to/state.db, sqlite:// (in memory) or postgresql://user@host/name"


def driver_url(text: str) -> URL:
    """The address with the name of our driver. Raises UnknownDatabase."""
    if several := _SEVERAL.fullmatch(text):
        return _url_of_several(several)
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


def address_of_several(text: str) -> str:
    """The address for a driver that tries several servers; empty if it names one.

    Call `driver_url` before, which checks it.
    """
    several = _SEVERAL.fullmatch(text)
    return f"postgresql:{text.partition(':')[2]}" if several else ""


def _url_of_several(several: re.Match[str]) -> URL:
    """The URL for display: the names of the servers, without their ports."""
    hosts = several["hosts"].split(",")
    found = [match for host in hosts if (match := _HOST.fullmatch(host))]
    if len(found) < len(hosts) or len(hosts) > HOSTS_MAX:
        raise UnknownDatabase(
            f"{quoted(several['hosts'])} does not name the servers of a database",
            hint=f"use postgresql://user@host1:5432,host2:5432/name, with {HOSTS_MAX} servers at most",
        )
    user = f"{several['user']}@" if several["user"] else ""
    url = driver_url(f"postgresql://{user}{found[0]['name']}{_without_target(several['rest'] or '')}")
    return url.set(host=",".join(match["name"] for match in found))


def _without_target(rest: str) -> str:
    """The part after the servers, without the kind of server. Raises UnknownDatabase."""
    path, _, query = rest.partition("?")
    options = query.split("&") if query else []
    targets = [option.partition("=")[2] for option in options if option.startswith(_TARGET)]
    if not _PRIMARY.issuperset(targets):
        raise UnknownDatabase(
            f"{quoted(targets[0])} is not a kind of server that a manager can use", hint=f"use {_TARGET}read-write"
        )
    kept = "&".join(option for option in options if not option.startswith(_TARGET))
    return f"{path}?{kept}" if kept else path


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
