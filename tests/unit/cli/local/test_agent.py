"""`sokovan agent run`: what it hands over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.entrypoints.agent import AgentOptions
from tests.unit.cli.canned_server import Sokovan

MANAGER = "ws://127.0.0.1:7647"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[AgentOptions]:
    """The options passed to `run_agent`."""
    found: list[AgentOptions] = []

    def agent(options: AgentOptions, tell: Callable[[str], None]) -> int:
        found.append(options)
        tell("dialling")
        return 0

    monkeypatch.setattr("sokovan.entrypoints.agent.run_agent", agent)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("SOKOVAN_AGENT_TOKEN", raising=False)
    return found


def test_every_option_is_handed_over(sokovan: Sokovan, asked: list[AgentOptions], tmp_path: Path) -> None:
    (tmp_path / "t").write_text("skj-1\n", encoding="utf-8")
    words = (
        "--name",
        "gpu2",
        "--scaling-group",
        "big",
        "--fake-gpus",
        "4",
        "--gpu-shares",
        "--kernel-ports",
        "31000-31999",
        "--shard",
        "east",
        "--max-kernels",
        "8",
        "--reserve",
        "cpu=0.1,mem=1MiB",
        "--label",
        "rack=r01",
        "--root",
        "r",
    )
    assert sokovan("agent", "run", MANAGER, *words, "--token-file", str(tmp_path / "t")) == (0, "", "dialling\n")
    [options] = asked
    assert options == AgentOptions(
        MANAGER,
        options.token,
        root=Path("r"),
        name="gpu2",
        scaling_group="big",
        fake_gpus=4,
        gpu_shares=True,
        kernel_ports="31000-31999",
        shard="east",
        kernels_max=8,
        reserve="cpu=0.1,mem=1MiB",
        labels={"rack": "r01"},
    )
    assert options.token.startswith("skj-")


def test_the_token_may_come_from_the_environment(
    sokovan: Sokovan, asked: list[AgentOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOKOVAN_AGENT_TOKEN", "skj-2")
    assert sokovan("agent", "run", MANAGER)[0] == 0
    assert asked[0].root == tmp_path / "sokovan" / "agent"


@pytest.mark.parametrize(
    "words",
    [
        ("http://x",),
        (MANAGER,),
        (MANAGER, "--token-file", "/no/such/file"),
        (MANAGER, "--fake-gpus", "-1"),
        (MANAGER, "--token-file", "/dev/null"),
    ],
)
def test_invalid_values_are_a_usage_error(sokovan: Sokovan, asked: list[AgentOptions], words: tuple[str, ...]) -> None:
    status, out, err = sokovan("agent", "run", *words)
    assert (status, out, asked) == (2, "", [])
    assert "hint:" in err


def test_a_machine_that_has_not_joined_names_its_manager(
    sokovan: Sokovan, asked: list[AgentOptions], tmp_path: Path
) -> None:
    status, _out, err = sokovan("agent", "run", "--root", str(tmp_path))
    assert (status != 0, asked, "sokovan agent token" in err) == (True, [], True)


@pytest.mark.parametrize("label", ["rack", "sokovan.ports=31000-31999"])
def test_a_label_has_a_value_and_a_name_that_the_agent_does_not_use(
    sokovan: Sokovan, asked: list[AgentOptions], monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    monkeypatch.setenv("SOKOVAN_AGENT_TOKEN", "skj-2")
    assert sokovan("agent", "run", MANAGER, "--label", label)[0] == 2
    assert asked == []
