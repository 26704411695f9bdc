"""Options of the listener for other machines."""

from __future__ import annotations

from pathlib import Path

from sokovan.entrypoints.joining.machine_options import MachineLinkOptions
from sokovan.entrypoints.settings.listen_address import ListenAddress
from sokovan.entrypoints.web.connection_limits import ConnectionLimits
from sokovan.testing.telemetry import RecordedTelemetry


def test_connections_of_other_machines_are_limited() -> None:
    at = ListenAddress("127.0.0.1", 0)
    options = MachineLinkOptions(at=at, folder=Path(), telemetry=RecordedTelemetry(), log=print)
    assert options.limits == ConnectionLimits()
