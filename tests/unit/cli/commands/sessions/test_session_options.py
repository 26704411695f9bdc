"""The options of a session as requests to the API."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from sokovan.cli.commands.sessions.session_options import FILE_MAX, SessionFlags, read_spec_file
from sokovan.sdk.errors import InvalidSetting, InvalidSpecFile
from sokovan.sdk.settings import ClientSettings, resolve
from sokovan.wire.api.sessions import MountBody, RunOptions, ServicePortBody, SessionBody

SPEC = "apiVersion: sokovan/v1\nkind: Session\nname: train\nrun: python train.py\nresources: {cpu: 2, mem: 1GiB}\n"


@pytest.fixture
def settings(tmp_path: Path) -> ClientSettings:
    """The settings of a user with a default queue."""
    return resolve({}, environment={"HOME": str(tmp_path), "SOKOVAN_QUEUE": "research"}, folder=tmp_path)


def test_every_option_reaches_the_request(settings: ClientSettings) -> None:
    flags = SessionFlags(
        name="n", type="interactive", image="host", cpus="2", mem="4GiB", gpus="0.5", resources=("tpu.device=1",),
        size=4, minimum=2, environment=("A=1", "B="), mounts=("/a:/b:rw",), ports=("web=80",),
        labels=("team=vision", "nightly="), require=("zone=a",), topology="hard:rack", group="g",
        scaling_group="s", priority=3, depends_on=("x",), starts_at="2030-01-01T00:00:00Z", time_limit="4h",
        on_agent_lost="requeue", on_preempt="end", stop_grace="30s",
    )  # fmt: skip
    assert flags.bodies(["python", "-V"], settings) == [
        SessionBody(
            name="n", type="interactive", image="host", command=["python", "-V"], environment={"A": "1", "B": ""},
            resources={"tpu.device": "1", "cpu": "2", "mem": "4GiB", "cuda.shares": "0.5"}, size=4, minimum=2,
            mounts=[MountBody(source="/a", target="/b", read_only=False)],
            ports=[ServicePortBody(name="web", port=80)], labels={"team": "vision", "nightly": ""},
            require={"zone": "a"}, scaling_group="s",
            queue="research", group="g", priority=3, topology="hard:rack", depends_on=["x"],
            starts_at="2030-01-01T00:00:00Z", time_limit="4h", on_agent_lost="requeue", on_preempt="end",
            stop_grace="30s",
        )
    ]  # fmt: skip


def test_flags_override_the_file(tmp_path: Path, settings: ClientSettings) -> None:
    (tmp_path / "f.yaml").write_text(SPEC, encoding="utf-8")
    [body] = SessionFlags(file=str(tmp_path / "f.yaml"), name="other", cpus="4").bodies([], settings)
    assert (body.name, body.command, body.queue) == ("other", ["python", "train.py"], "research")
    assert body.resources == {"cpu": "4", "mem": "1GiB"}
    [body] = SessionFlags(file=str(tmp_path / "f.yaml")).bodies(["ls"], settings)
    assert (body.name, body.command) == ("train", ["ls"])


def test_a_flag_with_the_default_value_overrides_the_file(tmp_path: Path, settings: ClientSettings) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC}size: 4\npriority: 2\n", encoding="utf-8")
    [body] = SessionFlags(file=str(tmp_path / "f.yaml"), size=1, priority=0).bodies([], settings)
    assert (body.size, body.priority) == (1, 0)


def test_labels_of_flags_are_added_to_those_of_the_file(tmp_path: Path, settings: ClientSettings) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC}labels: {{team: audio, run: 7}}\n", encoding="utf-8")
    [body] = SessionFlags(file=str(tmp_path / "f.yaml"), labels=("team=vision",)).bodies([], settings)
    assert body.labels == {"team": "vision", "run": "7"}


def test_one_command_is_not_for_several_sessions(tmp_path: Path, settings: ClientSettings) -> None:
    (tmp_path / "f.yaml").write_text(f"{SPEC}---\n{SPEC}", encoding="utf-8")
    flags = SessionFlags(file=str(tmp_path / "f.yaml"))
    assert len(flags.bodies([], settings)) == 2
    with pytest.raises(InvalidSetting, match="contains 2 sessions"):
        flags.bodies(["ls"], settings)


@pytest.mark.parametrize("texts", [("A",), ("=1",), ("A=1", "A=2")])
def test_a_value_that_is_not_name_and_value_is_refused(texts: tuple[str, ...], settings: ClientSettings) -> None:
    with pytest.raises(InvalidSetting, match="--env"):
        SessionFlags(environment=texts).bodies([], settings)


def test_every_flag_sets_an_option_of_the_request() -> None:
    flags = {each.name for each in fields(SessionFlags)} - {"file"}
    assert flags - set(RunOptions.__annotations__) == set()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff", "is not text"), (b"x" * (FILE_MAX + 1), "larger than 1 MiB"), (None, "cannot read")],
)
def test_an_unreadable_file_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "f.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSpecFile, match=message):
        read_spec_file(str(path))
