"""The settings of a server: where they come from, how they change, and the plugins they name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.embedded import Embedded, until

pytestmark = [pytest.mark.server, pytest.mark.slow]

# The examples of the documents that describe validators, sequencers, selectors and allocators, each as a plugin.
PLUGINS = '''
from pathlib import Path

from sokovan.adapters.sql.allocation.allocator import RepositoryAllocator
from sokovan.scheduling.selectors.base import AgentSelection, AgentSelector
from sokovan.scheduling.selectors.exceptions import NoAvailableAgentError
from sokovan.scheduling.sequencers.base import WorkloadSequencer
from sokovan.scheduling.validators.base import SchedulingValidationError, ValidatorRule


class AffinitySelector(AgentSelector):
    """Image affinity-based selection"""

    name = "affinity"

    def select(self, requirements, agents, criteria):
        candidates = self._filter_by_resources(agents, requirements)
        if not candidates:
            raise NoAvailableAgentError("no agent has room")
        for agent in candidates:
            if requirements.image in agent.cached_images:
                return AgentSelection(agent_id=agent.agent_id)
        return AgentSelection(agent_id=candidates[0].agent_id)


class WeightedSelector(AgentSelector):
    """Multi-factor weight-based selection"""

    name = "weighted"

    def __init__(self, utilization_weight=0.4, affinity_weight=0.3, locality_weight=0.3):
        self._weights = {
            "utilization": utilization_weight,
            "affinity": affinity_weight,
            "locality": locality_weight,
        }

    def select(self, requirements, agents, criteria):
        candidates = self._filter_by_resources(agents, requirements)
        if not candidates:
            raise NoAvailableAgentError("no agent has room")
        scored = [(agent, self._calculate_score(agent, requirements)) for agent in candidates]
        best_agent = max(scored, key=lambda x: x[1])[0]
        return AgentSelection(agent_id=best_agent.agent_id)

    def _calculate_score(self, agent, requirements):
        near = agent.labels.get("zone") == "near"
        cached = requirements.image in agent.cached_images
        return self._weights["affinity"] * cached + self._weights["locality"] * near


class EnhancedAllocator(RepositoryAllocator):
    name = "enhanced"

    async def allocate(self, session, agent_selection, context):
        if session.priority == 17:
            raise RuntimeError("the allocator is broken")
        result = await super().allocate(session, agent_selection, context)
        await self._record_allocation_metrics(result)
        return result

    async def _record_allocation_metrics(self, result):
        with Path(__file__).with_name("allocations.txt").open("a") as file:
            file.write(f"{len(result.kernels)} {' '.join(result.agent_allocations)}\\n")


class CustomValidator(ValidatorRule):
    name = "small-only"

    def validate(self, session, context):
        if session.priority == 9:
            raise SchedulingValidationError("Custom validation failed", session_id=session.session_id)
        if session.priority == 13:
            raise RuntimeError("the validator is broken")


class CustomSequencer(WorkloadSequencer):
    name = "newest-first"

    def sequence(self, sessions, context):
        return sorted(sessions, key=lambda s: -s.submitted)
'''
ENTRY_POINTS = """
[sokovan.selectors]
affinity = seed_plugins:AffinitySelector
weighted = seed_plugins:WeightedSelector

[sokovan.sequencers]
newest-first = seed_plugins:CustomSequencer

[sokovan.validators]
small-only = seed_plugins:CustomValidator

[sokovan.allocators]
enhanced = seed_plugins:EnhancedAllocator
broken = seed_plugins_missing:Nothing
"""
FILE = """[scheduler]
allocator = "enhanced"

[scaling_groups.default]
scheduler = "newest-first"

[scaling_groups.default.scheduler_opts]
agent_selector = "{selector}"
validators = ["small-only"]
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package of plugins, on the path of the server."""
    folder = tmp_path / "packages"
    about = folder / "seed_plugins-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "seed_plugins.py").write_text(PLUGINS, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: seed-plugins\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    embedded = Embedded(tmp_path / "up")
    yield embedded
    embedded.quit()


def write_file(server: Embedded, text: str) -> Path:
    server.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = server.data / "sokovan.toml"
    file.write_text(text, encoding="utf-8")
    return file


def settings(server: Embedded) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in server.cli_json("config", "server")}


def one_gpu(server: Embedded, name: str, **more: Any) -> str:
    return str(server.submit("sleep", "300", name=name, resources={"cpu": 1, "gpus": 1, "mem": "64MiB"}, **more)["id"])


def agent_of(session: dict[str, Any]) -> str:
    return str(session["kernels"][0]["agent"])


def give_image(server: Embedded, agent: str, image: str, *, without: str) -> None:
    """Run a session with an image on one of two agents, so that only this one has it."""
    assert server.cli("agent", "drain", without).returncode == 0
    server.settles(str(server.submit("true", image=image, resources={"cpu": 1, "mem": "64MiB"})["id"]))
    assert server.cli("agent", "undrain", without).returncode == 0
    until(
        lambda: {one["id"] for one in server.cli_json("agent", "ls") if image in one["images"]} == {agent},
        what="the agent has the image",
    )


def plugins_that_raise_are_named(server: Embedded, ended: str, follows: str, later: str) -> None:
    """A plugin that raises is named, and stops neither the cycle nor the ones after it."""
    broken = one_gpu(server, "broken", priority=13)
    until(lambda: "RuntimeError: the validator is broken" in server.cli("why", "broken").stdout, what="why names it")
    server.end(ended)
    server.reaches(follows, "running")
    server.end(later)
    unlucky = one_gpu(server, "unlucky", priority=17)
    until(
        lambda: any("the allocator is broken" in line["detail"] for line in server.history(unlucky)),
        what="the history has the failure",
    )
    log = (server.data / "logs" / "sokovan.log").read_text(encoding="utf-8")
    assert "scaling group default cannot be scheduled: internal: RuntimeError" in log
    for one in (broken, unlucky):
        server.end(one)
    server.reaches(one_gpu(server, "last"), "running")


def test_plugins_of_an_installed_package_are_chosen_by_settings(server: Embedded, packages: Path) -> None:
    file = write_file(server, FILE.format(selector="affinity"))
    server.start("--fake", "2x2", "--no-agent", "--set", "orchestrator.agent_failing_sessions=5")
    found = settings(server)
    assert (found["scheduler.allocator"]["value"], found["scheduler.allocator"]["source"]) == ("enhanced", f"{file}:2")
    assert found["orchestrator.agent_failing_sessions"]["source"] == "--set orchestrator.agent_failing_sessions"
    assert (found["api.port"]["value"], found["api.port"]["source"]) == (0, "--port")
    assert found["log.files_kept"]["source"] == "default"

    # The selector prefers the agent that has the image; without one, it fills the first agent.
    first, second = sorted(one["id"] for one in server.cli_json("agent", "ls"))
    give_image(server, second, "venv:train", without=first)
    train = one_gpu(server, "train", image="venv:train")
    assert agent_of(server.reaches(train, "running")) == second
    server.end(train)
    server.settles(train)
    filled = [one_gpu(server, name) for name in ("one", "two")]
    assert [agent_of(server.reaches(one, "running")) for one in filled] == [first, first]
    # The allocator has recorded each of its allocations.
    recorded = (packages / "allocations.txt").read_text(encoding="utf-8").splitlines()
    assert recorded == [f"1 {second}"] * 2 + [f"1 {first}"] * 2

    # The validator objects, with its own words.
    refused = one_gpu(server, "refused", priority=9)
    until(lambda: "Custom validation failed" in server.cli("why", "refused").stdout, what="why has the reason")
    server.end(refused)

    # A change of the file takes effect while the server runs, and is logged.
    server.cli("agent", "label", second, "zone=near")
    file.write_text(FILE.format(selector="weighted") + "[orchestrator]\nagent_lost_s = 90\n", encoding="utf-8")
    log = server.data / "logs" / "sokovan.log"
    until(lambda: "agent_lost_s changed from 60 to 90" in log.read_text(encoding="utf-8"), what="the change is logged")
    until(
        lambda: server.cli_json("scaling-group", "show", "default")["scheduler_opts"]["agent_selector"] == "weighted",
        what="the scaling group is stored",
    )
    for one in filled:
        server.end(one)
        server.settles(one)
    near = [one_gpu(server, name) for name in ("three", "four")]
    assert [agent_of(server.reaches(one, "running")) for one in near] == [second, second]

    # The sequencer takes the newest of those that wait.
    others = [one_gpu(server, name) for name in ("five", "six")]
    for one in others:
        server.reaches(one, "running")
    old, new = (one_gpu(server, name) for name in ("old", "new"))
    server.end(near[0])
    server.reaches(new, "running")
    assert server.session(old)["status"] == "pending"
    plugins_that_raise_are_named(server, near[1], old, others[0])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '[scheduler]\nallocator = "missing"\n',
            "sokovan.toml:2: scheduler.allocator: there is no allocator 'missing'",
        ),
        ('[scheduler]\nallocator = "broken"\n', "No module named 'seed_plugins_missing'"),
        (
            "[scheduler]\nbatch_maks = 5\n",
            ":2: scheduler.batch_maks: is not known; did you mean batch_max?",
        ),
        (
            '[scaling_groups.a]\nscheduler = "x"\n',
            ":2: scaling_groups.a.scheduler: there is no sequencer 'x'",
        ),
        ("[scheduler\n", "sokovan.toml:1:"),
    ],
)
@pytest.mark.usefixtures("packages")
def test_a_server_does_not_start_with_a_mistake_and_a_check_finds_the_same(
    server: Embedded, text: str, problem: str
) -> None:
    file = write_file(server, text)
    for words in (("up", "--port", "0"), ("config", "server", "--check", str(file))):
        done = server.cli(*words)
        assert done.returncode == 2
        assert problem in done.stderr
    assert not (server.data / "state.db").exists()
