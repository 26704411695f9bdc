"""An agent put together on this machine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sokovan.agent.journal import JournalInUse
from sokovan.domain.cluster.agent import PORTS_LABEL, RUNTIME_LABEL
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.agent import AgentOptions, build_agent


def options(root: Path) -> AgentOptions:
    return AgentOptions("ws://127.0.0.1:1", "an-agent-key", root=root, name="here", fake_gpus=2)


@pytest.mark.slow
async def test_it_says_what_it_has_and_what_holds_its_kernels(tmp_path: Path) -> None:
    with ExitStack() as stack:
        parts = await build_agent(options(tmp_path), stack, log=lambda _line: None)
        summary = parts.summary()
        assert summary.startswith("here: ")
        assert "2 devices" in summary
        assert "sandbox" in summary


@pytest.mark.slow
async def test_its_folder_gives_it_an_identity_that_no_other_folder_has(tmp_path: Path) -> None:
    seen = []
    for root in (tmp_path / "one", tmp_path / "one", tmp_path / "two"):
        with ExitStack() as stack:
            parts = await build_agent(options(root), stack, log=lambda _line: None)
            seen.append(parts.runner.hello().identity)
    first, again, other = seen
    assert first == again != other
    assert len(first) > 16
    assert (tmp_path / "one" / "identity").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.parametrize(("given", "reported"), [("", None), ("31000-31999", "31000-31999")])
async def test_it_reports_the_ports_for_its_kernels(tmp_path: Path, given: str, reported: str | None) -> None:
    with ExitStack() as stack:
        parts = await build_agent(replace(options(tmp_path), kernel_ports=given), stack, log=lambda _line: None)
        assert parts.runner.hello().labels.get(PORTS_LABEL) == reported


@pytest.mark.slow
async def test_it_does_not_start_with_ports_that_are_none(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(InvalidInput, match="'80-90' is not a range of ports"):
        await build_agent(replace(options(tmp_path), kernel_ports="80-90"), stack, log=lambda _line: None)


async def test_it_reports_its_runtime_and_two_agents_cannot_have_one_folder(tmp_path: Path) -> None:
    with ExitStack() as stack:
        parts = await build_agent(options(tmp_path), stack, log=lambda _line: None)
        assert parts.runner.hello().labels[RUNTIME_LABEL] == "process"
        with pytest.raises(JournalInUse):
            await build_agent(options(tmp_path), stack, log=lambda _line: None)


def test_its_key_is_in_no_printed_form(tmp_path: Path) -> None:
    assert "an-agent-key" not in repr(options(tmp_path))
