"""Options of `serve` and `deployment update`, as a revision of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sokovan.cli.arguments.parameters import OptionGroup, Parameter
from sokovan.cli.commands.options import name_values
from sokovan.cli.commands.sessions.session_options import SecretValues, read_text_file
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.session_request import read_mount, session_body
from sokovan.wire.api.deployments import ProbeBody, RevisionBody
from sokovan.wire.api.sessions import MountBody, SessionBody

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

REPLICA = OptionGroup("Replica options", sort_key=20)
TOY, CUSTOM, LLAMA_CPP, DEFAULT_ENGINE = "toy", "custom", "llama-cpp", "vllm"


@Parameter(name="*", group=REPLICA)
@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFlags:
    """Flags that describe what each replica runs; omitted ones keep their value."""

    engine: Annotated[str | None, Parameter(help="Engine: vllm, sglang, llama-cpp, transformers, custom, toy, ...")] = (
        None
    )
    image: Annotated[str | None, Parameter(help="Image: host, venv:NAME or a container image.")] = None
    cpus: Annotated[str | None, Parameter(help="CPUs per kernel: 2, 0.5.")] = None
    mem: Annotated[str | None, Parameter(help="Memory per kernel: 4GiB.")] = None
    gpus: Annotated[str | None, Parameter(help="GPUs per kernel: 1, 8, 0.5.")] = None
    resources: Annotated[
        tuple[str, ...],
        Parameter(name="--slot", negative=(), help="Other resource per kernel: NAME=AMOUNT. Repeatable."),
    ] = ()
    environment: Annotated[
        tuple[str, ...],
        Parameter(name=["--env", "-e"], negative=(), help="Environment variable: NAME=VALUE. Repeatable."),
    ] = ()
    secrets: Annotated[
        tuple[str, ...],
        Parameter(name="--secret-env", negative=(), help="Secret variable: NAME (value from here) or NAME=VALUE."),
    ] = ()
    mounts: Annotated[
        tuple[str, ...],
        Parameter(name="--mount", negative=(), help="Mount a folder: SOURCE:TARGET (read-only) or SOURCE:TARGET:rw."),
    ] = ()
    health_path: Annotated[str | None, Parameter(help="Path that answers when a replica is ready.")] = None
    smoke: Annotated[bool | None, Parameter(help="Ask each replica for one token before it serves.")] = None
    concurrency: Annotated[int | None, Parameter(help="Requests that a replica takes at once.")] = None
    startup_timeout: Annotated[str | None, Parameter(help="Time to get ready: 30m.")] = None
    drain_timeout: Annotated[str | None, Parameter(help="Time for running requests before the end: 5m.")] = None
    definition: Annotated[str | None, Parameter(help="A model-definition.yaml to take command and check from.")] = None

    def revision(
        self, client: Client, model: str | None, words: Sequence[str], base: RevisionBody | None = None
    ) -> RevisionBody:
        """The revision of these flags, over that of `base`. Raises InvalidSetting."""
        defined = self._defined()
        engine = self.engine or defined.get("engine") or (base.engine if base else _engine_for(model or ""))
        found = base or RevisionBody(engine=engine)
        chosen: dict[str, Any] = {**defined, "engine": engine, **self._simple()}
        if model is not None and engine != TOY:
            chosen["model"] = model
        if words:
            chosen["command" if engine == CUSTOM else "arguments"] = list(words)
        found = with_local_files(client, self._with_secrets(self._with_request(replace(found, **chosen))))
        chosen = {"path": self.health_path, "smoke": self.smoke}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        return replace(found, probe=replace(found.probe or ProbeBody(), **chosen)) if chosen else found

    def _simple(self) -> dict[str, Any]:
        given = {
            "concurrency_max": self.concurrency,
            "startup_timeout": self.startup_timeout,
            "drain_timeout": self.drain_timeout,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _with_secrets(self, found: RevisionBody) -> RevisionBody:
        """Others keep their values. Raises InvalidSetting."""
        given = SecretValues("--secret-env", "HF_TOKEN=...").read(self.secrets)
        return replace(found, secrets={**found.secrets, **given})

    def _with_request(self, found: RevisionBody) -> RevisionBody:
        """Resources, variables, mounts and image, read as those of sessions are."""
        options: dict[str, Any] = {
            "cpus": self.cpus,
            "mem": self.mem,
            "gpus": self.gpus,
            "resources": name_values(self.resources, option="--slot", example="cuda.shares=0.5"),
            "environment": name_values(self.environment, option="--env", example="SEED=1"),
            "image": self.image,
        }
        given = {name: value for name, value in options.items() if value}
        base = SessionBody(resources=dict(found.resources), environment=dict(found.environment), image=found.image)
        body = session_body((), base=base, **given)
        mounts = [read_mount(text) for text in self.mounts] if self.mounts else found.mounts
        return replace(found, resources=body.resources, environment=body.environment, image=body.image, mounts=mounts)

    def _defined(self) -> dict[str, Any]:
        if self.definition is None:
            return {}
        from sokovan.sdk.spec.model_definition import read_model_definition  # noqa: PLC0415  # YAML loads only here

        read = read_model_definition(*read_text_file(self.definition))
        probe = ProbeBody(path=read.health_path, interval_ms=read.interval_ms, timeout_ms=read.timeout_ms)
        return {"engine": CUSTOM, "command": list(read.command), "probe": probe}


NO_REVISION = RevisionFlags()


def with_local_files(client: Client, found: RevisionBody) -> RevisionBody:
    """Mounts as the server sees them, and that of a model on this machine.

    Unchanged if the server does not see the files of this machine.
    """
    found = replace(found, mounts=client.with_local_paths(SessionBody(mounts=found.mounts), is_chosen=True).mounts)
    is_path = found.model.startswith(("/", "./", "../", "~"))
    beneath = any(_is_beneath(found.model, mount.target) for mount in found.mounts)
    if not is_path or beneath or not client.sees_local_files():
        return found
    path = Path(found.model).expanduser().resolve()
    # One named from the root may be on the machine of an agent.
    if not found.model.startswith("/") and not path.exists():
        raise InvalidSetting(f"{path} does not exist", hint="give the path of a model, or its name on a hub")
    folder = str(path if path.is_dir() else path.parent)
    mount = MountBody(source=folder, target=folder)
    return replace(found, model=str(path), mounts=[*found.mounts, mount])


def _engine_for(model: str) -> str:
    """The engine for a model if none is given: by its name, else vLLM."""
    if model == TOY:
        return TOY
    return LLAMA_CPP if model.endswith(".gguf") else DEFAULT_ENGINE


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def revision_facts(revision: RevisionBody) -> Mapping[str, str]:
    """The facts of a revision that a listing shows."""
    resources = " ".join(f"{name}={amount}" for name, amount in sorted(revision.resources.items()))
    words = " ".join([*revision.command, *revision.arguments])
    return {
        "engine": revision.engine,
        "model": revision.model,
        "resources": resources,
        "arguments": words,
        "secrets": " ".join(sorted(revision.secrets)),
    }
