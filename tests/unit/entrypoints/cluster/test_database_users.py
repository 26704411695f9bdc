"""The users of the cluster's database, as the settings name them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sokovan.adapters.sql.connections.database_roles import BadRoleName, RoleMissing, RolesNotCreated, setup_statements
from sokovan.entrypoints.cluster.database_users import (
    DEFAULT_ROLES,
    check_users,
    create_roles,
    grant_to_users,
    roles_of,
)
from sokovan.entrypoints.settings.server_settings import ServerSettings, settings_of
from sokovan.testing.servers import PostgresServer
from tests.database_users import PASSWORD, as_user, create_users, execute, names_in, removed_users


def storage(**urls: str) -> ServerSettings:
    return settings_of({"storage": urls})


@pytest.fixture
def url(postgres_server: PostgresServer, unique_name: str, migrated_database: str) -> Iterator[str]:
    made = postgres_server.create_database(unique_name, template=migrated_database)
    with removed_users(postgres_server, made):
        yield made


def test_names_are_given_or_those_of_the_addresses_or_the_usual_ones() -> None:
    assert roles_of(ServerSettings()) == DEFAULT_ROLES
    one = roles_of(storage(url="postgresql://me:x@db/n"))
    # The one user that there is owns the tables, and keeps them.
    assert (one.api, one.coordinator, one.migration) == ("sokovan_api", "sokovan_coordinator", "me")
    several = storage(
        url="postgresql://c@db/n", api_url="postgresql://a@db/n", migration_url="postgresql://m@db/n?sslmode=require"
    )
    named = roles_of(several)
    assert (named.api, named.coordinator, named.migration) == ("a", "c", "m")
    assert roles_of(several, api="web").api == "web"
    with pytest.raises(BadRoleName):
        roles_of(several, api="c")


def test_one_user_for_everything_is_noted() -> None:
    (found,) = check_users(storage(url="postgresql://me:secret@db/n"))
    assert (found.name, found.ok, found.detail) == ("roles", None, "me for API, coordinators and migrations")
    assert check_users(ServerSettings()) == []


@pytest.mark.slow
def test_users_are_granted_what_they_need_and_checked(url: str) -> None:
    names = names_in(url)
    settings = storage(
        url=as_user(url, names.coordinator),
        api_url=as_user(url, names.api),
        migration_url=as_user(url, names.migration),
    )
    assert {one.name: one.ok for one in check_users(settings)} == dict.fromkeys(
        ("role coordinator", "role api", "role migration"), False
    )
    create_users(url, setup_statements(names))
    said: list[str] = []
    grant_to_users(settings, report=said.append)
    assert said == [f"granted privileges to {names.coordinator}, {names.api}"]
    assert {one.ok for one in check_users(settings)} == {True}
    execute(url, f'REVOKE "{names.api}" FROM "{names.coordinator}"; GRANT DELETE ON sessions TO "{names.api}"')
    found = {one.name: one for one in check_users(settings)}
    assert (found["role coordinator"].ok, found["role api"].ok, found["role migration"].ok) == (False, None, True)
    assert "membership in" in found["role coordinator"].detail
    assert found["role api"].detail == f"{names.api} may do too much: DELETE on sessions"


@pytest.mark.slow
def test_a_user_that_does_not_exist_is_named(url: str) -> None:
    settings = storage(url=url, api_url=as_user(url, "nobody_here"))
    with pytest.raises(RoleMissing, match="nobody_here"):
        grant_to_users(settings, report=lambda _line: None)


@pytest.mark.slow
def test_one_user_needs_no_privileges(url: str) -> None:
    said: list[str] = []
    grant_to_users(storage(url=url), report=said.append)
    assert said == []


@pytest.mark.slow
def test_roles_are_created_by_who_may_and_by_nobody_else(url: str) -> None:
    names = names_in(url)
    for _ in range(2):  # it may be run again
        create_roles(storage(url=url), names)
    for name in (names.api, names.coordinator, names.migration):
        execute(url, f"ALTER ROLE \"{name}\" PASSWORD '{PASSWORD}'")
    api, coordinator, migration = (as_user(url, one) for one in (names.api, names.coordinator, names.migration))
    settings = storage(url=coordinator, api_url=api, migration_url=migration)
    grant_to_users(settings, report=lambda _line: None)
    assert [one.ok for one in check_users(settings)] == [True, True, True]
    with pytest.raises(RolesNotCreated, match="the roles cannot be created"):
        create_roles(storage(url=api), names)
    with pytest.raises(Exception, match="permission denied to create temporary tables"):
        execute(api, "CREATE TEMPORARY TABLE filler (line text)")
