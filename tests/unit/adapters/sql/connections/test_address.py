"""Addresses of databases as people write them."""

import pytest

from sokovan.adapters.sql.connections.address import HOSTS_MAX, UnknownDatabase, address_of_several, driver_url


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite://", "sqlite+aiosqlite"),
        ("sqlite:////var/lib/sokovan/state.db", "sqlite+aiosqlite"),
        ("postgresql://u:p@h/d", "postgresql+asyncpg"),
        ("postgres://u@h/d", "postgresql+asyncpg"),
        ("postgresql+psycopg2://u@h/d", "postgresql+asyncpg"),
    ],
)
def test_an_address_is_spoken_to_by_our_drivers(given: str, driver: str) -> None:
    assert driver_url(given).drivername == driver


@pytest.mark.parametrize("given", ["mysql://u:secret@h/d", "no address", "", "postgresql://u:secret@h:port/d"])
def test_another_address_is_refused_without_telling_its_password(given: str) -> None:
    with pytest.raises(UnknownDatabase) as caught:
        driver_url(given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://u:p@a:5432,b:5433/d", "postgresql+asyncpg://u:p@a,b/d"),
        (
            "postgres://u@a,b.example,10.0.0.1/d?target_session_attrs=read-write",
            "postgresql+asyncpg://u@a,b.example,10.0.0.1/d",
        ),
        ("postgresql://a,b/d?sslmode=require&target_session_attrs=primary", "postgresql+asyncpg://a,b/d?ssl=require"),
    ],
)
def test_an_address_may_name_several_servers(given: str, shown: str) -> None:
    assert driver_url(given).render_as_string(hide_password=False) == shown
    assert address_of_several(given) == f"postgresql:{given.partition(':')[2]}"


@pytest.mark.parametrize("given", ["sqlite:////a,b/d", "postgresql://u:p,q@a/d,e", "postgresql://a:5432/d?x=1,2"])
def test_a_comma_elsewhere_names_no_further_server(given: str) -> None:
    assert address_of_several(given) == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("postgresql://u:secret@a,/d", "'a,' does not name the servers"),
        ("postgresql://u:secret@a,b:port/d", "does not name the servers"),
        (f"postgresql://u:secret@{','.join(['a'] * (HOSTS_MAX + 1))}/d", "does not name the servers"),
        ("postgresql://u:secret@a,b/d?target_session_attrs=standby", "'standby' is not a kind of server"),
        ("postgresql://u:secret@a,b/d?connect_timeout=1", "'connect_timeout' is not an option"),
    ],
)
def test_several_servers_that_cannot_be_used_are_refused(given: str, why: str) -> None:
    with pytest.raises(UnknownDatabase, match=why) as caught:
        driver_url(given)
    assert "secret" not in str(caught.value)
