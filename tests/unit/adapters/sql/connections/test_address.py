"""Addresses of databases as people write them."""

import pytest

from sokovan.adapters.sql.connections.address import UnknownDatabase, driver_url


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
