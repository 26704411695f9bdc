"""Which errors of a database are retried, and which mean that it is away."""

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError

from sokovan.adapters.sql.connections.errors import is_connection_loss, is_contention, is_retryable


class DriverError(Exception):
    """An error of a driver, with its SQLSTATE."""

    def __init__(self, text: str = "", *, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def of_state(sqlstate: str) -> DBAPIError:
    return DBAPIError("SELECT 1", {}, DriverError(sqlstate=sqlstate))


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55P03", "57014"])
def test_a_transaction_that_others_are_in_the_way_of_asks_for_another_try(sqlstate: str) -> None:
    assert is_contention(of_state(sqlstate))
    assert is_retryable(of_state(sqlstate))
    assert not is_connection_loss(of_state(sqlstate))


def test_a_busy_file_asks_for_another_try() -> None:
    assert is_retryable(OperationalError("BEGIN", {}, DriverError("database is locked")))
    assert is_retryable(OperationalError("BEGIN", {}, DriverError("database table is locked: x")))


@pytest.mark.parametrize("sqlstate", ["08000", "08006", "57P01", "57P02", "57P03", "53300"])
def test_a_server_that_went_away_is_a_lost_connection(sqlstate: str) -> None:
    assert is_connection_loss(of_state(sqlstate))
    assert not is_retryable(of_state(sqlstate))
    assert not is_contention(of_state(sqlstate))


def test_a_broken_socket_is_a_lost_connection() -> None:
    for error in (ConnectionResetError(), TimeoutError(), OSError("no route")):
        assert is_connection_loss(error)
    assert is_connection_loss(InterfaceError("SELECT 1", {}, DriverError("connection is closed")))
    assert is_connection_loss(DBAPIError("SELECT 1", {}, DriverError(), connection_invalidated=True))


def test_a_constraint_violation_is_not_retried() -> None:
    for error in (IntegrityError("INSERT", {}, DriverError(sqlstate="23505")), of_state("42P01"), ValueError()):
        assert not is_retryable(error)
        assert not is_connection_loss(error)
