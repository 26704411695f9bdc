"""What people ask for on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.cli.commands.sessions.session_options import FILE_MAX, SessionFlags, pairs, read_spec_file
from sokovan.sdk.errors import InvalidSetting, InvalidSpecFile
from sokovan.sdk.settings import ClientSettings, resolve
from sokovan.wire.api.sessions import MountBody, ServicePortBody, SessionBody

SPEC = "apiVersion: sokovan/v1\nkind: Session\nname: train\nrun: python train.py\nresources: {cpu: 2, mem: 1GiB}\n"


@pytest.fixture
def settings(tmp_path: Path) -> ClientSettings:
    """Those of a user who prefers a queue."""
    return resolve({}, environment={"HOME": str(tmp_path), "SOKOVAN_QUEUE": "research"}, folder=tmp_path)


def test_every_option_reaches_the_request(settings: ClientSettings) -> None:
    wish = SessionFlags(
        name="n", type="interactive", image="host", cpus="2", mem="4GiB", gpus="0.5", slot=("tpu.device=1",), size=4,
        minimum=2, env=("A=1", "B="), mount=("/a:/b:rw",), port=("web=80",), require=("zone=a",),
        topology="hard:rack", group="g",
        scaling_group="s", priority=3, depends_on=("x",), starts_at="2030-01-01T00:00:00Z", time_limit="4h",
        on_agent_lost="requeue",
    )  # fmt: skip
    assert wish.bodies(["python", "-V"], settings) == [
        SessionBody(
            name="n", type="interactive", image="host", command=["python", "-V"], environment={"A": "1", "B": ""},
            resources={"tpu.device": "1", "cpu": "2", "mem": "4GiB", "cuda.shares": "0.5"}, size=4, minimum=2,
            mounts=[MountBody(source="/a", target="/b", read_only=False)],
            ports=[ServicePortBody(name="web", port=80)], require={"zone": "a"}, scaling_group="s",
            queue="research", group="g", priority=3, topology="hard:rack", depends_on=["x"],
            starts_at="2030-01-01T00:00:00Z", time_limit="4h", on_agent_lost="requeue",
        )
    ]  # fmt: skip


def test_what_is_said_wins_over_the_file(tmp_path: Path, settings: ClientSettings) -> None:
    (tmp_path / "f.yaml").write_text(SPEC, encoding="utf-8")
    [body] = SessionFlags(file=str(tmp_path / "f.yaml"), name="other", cpus="4").bodies([], settings)
    assert (body.name, body.command, body.queue) == ("other", ["python", "train.py"], "research")
    assert body.resources == {"cpu": "4", "mem": "1GiB"}
    [body] = SessionFlags(file=str(tmp_path / "f.yaml")).bodies(["ls"], settings)
    assert (body.name, body.command) == ("train", ["ls"])


def test_one_command_is_not_for_several_sessions(tmp_path: Path, settings: ClientSettings) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC}---\n{SPEC}", encoding="utf-8")
    wish = SessionFlags(file=str(tmp_path / "f.yaml"))
    assert len(wish.bodies([], settings)) == 2
    with pytest.raises(InvalidSetting, match="holds 2 sessions"):
        wish.bodies(["ls"], settings)


@pytest.mark.parametrize("texts", [("A",), ("=1",), ("A=1", "A=2")])
def test_what_is_not_name_and_value_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSetting, match="--env"):
        pairs(texts, option="--env", example="SEED=1")


@pytest.mark.parametrize(
    ("content", "told"), [(b"\xff", "is not text"), (b"x" * (FILE_MAX + 1), "is larger than"), (None, "cannot read")]
)
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "f.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSpecFile, match=told):
        read_spec_file(str(path))
