"""A server's agent has a data listener only with an address, and that only with an authority."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.agent import AgentOptions
from sokovan.entrypoints.joining.data_options import require_authority, with_data_listener
from sokovan.entrypoints.settings.server_settings import ServerSettings
from sokovan.entrypoints.settings.setting_sections import AgentSettings, OrchestratorSettings

AT = "127.0.0.1:0"


def test_an_address_needs_a_listener_for_machines() -> None:
    agent = AgentSettings(data_listen=AT)
    with pytest.raises(InvalidInput, match="no authority for other machines"):
        require_authority(ServerSettings(agent=agent))
    require_authority(ServerSettings())
    require_authority(ServerSettings(agent=agent, orchestrator=OrchestratorSettings(listen=AT)))
    require_authority(ServerSettings(agent=AgentSettings(data_listen=AT, enabled=False)))


@pytest.mark.slow
def test_an_agent_with_an_address_listens_there_and_one_without_does_not(tmp_path: Path) -> None:
    plain = AgentOptions("ws://127.0.0.1:1", "token", name="first")
    assert with_data_listener(plain, folder=tmp_path, own=tmp_path) is plain
    named = AgentOptions("ws://127.0.0.1:1", "token", name="first", data_listen=AT)
    options = with_data_listener(named, folder=tmp_path, own=tmp_path)
    assert options.data is not None
    with closing(options.data.listener):
        assert options.data.address == f"127.0.0.1:{options.data.listener.getsockname()[1]}"
    assert options.beside is not None
