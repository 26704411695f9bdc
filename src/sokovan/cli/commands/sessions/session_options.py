"""The options of `sokovan run`, `plan` and `shell`, as requests to the API.

A flag is declared once, in SessionFlags, under the name of the field of SessionBody
that it sets; nothing else in the command line names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from sokovan.cli.arguments.parameters import OptionGroup, Parameter
from sokovan.cli.commands.options import name_values
from sokovan.sdk.errors import ApiProblem, InvalidSetting, InvalidSpecFile
from sokovan.sdk.preferences import with_defaults
from sokovan.sdk.session_request import session_body
from sokovan.sdk.settings import ClientSettings
from sokovan.wire.api.sessions import SessionBody, SessionType

if TYPE_CHECKING:
    from sokovan.sdk.spec.spec_document import SpecDocument

FILE_MAX = 1024 * 1024
SPLIT_HINT = "split it into several files; programs and data do not belong in it: bring them with --upload FOLDER"
STANDARD_INPUT = "/dev/stdin"
SESSION = OptionGroup("Session options", sort_key=10)


@dataclass(frozen=True, slots=True)
class RequestedSession:
    """A request for a session, with the spec document that it was read from, if any."""

    body: SessionBody
    document: SpecDocument[SessionBody] | None = None

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Add the lines of the spec file to field errors that the server returns."""
        try:
            yield
        except ApiProblem as problem:
            if self.document is not None and problem.problems:
                problem.message = self.document.describe(problem.problems, self.body)
            raise


@dataclass(frozen=True, slots=True)
class NameValues:
    """Marks a repeatable flag whose values are NAME=VALUE, with an example of one."""

    option: str
    example: str

    def read(self, texts: Sequence[str]) -> dict[str, str]:
        """The values by their names. Raises InvalidSetting."""
        return name_values(texts, option=self.option, example=self.example)


@dataclass(frozen=True, slots=True)
class SecretValues(NameValues):
    """Like NameValues; the value of a NAME alone is that of the caller's own variable."""

    def read(self, texts: Sequence[str]) -> dict[str, str]:
        """The values by their names. Raises InvalidSetting, whose message has no value."""
        found = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not name or (not equals and name not in os.environ):
                problem = f"the variable {name[:80]!r} is not set here" if name else "a secret needs a name"
                raise InvalidSetting(f"{self.option}: {problem}", hint=f"export it, or write {self.example}")
            found[name] = value if equals else os.environ[name]
        return found


@Parameter(name="*", group=SESSION)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFlags:
    """Flags that describe a session; omitted ones keep the value of the spec file."""

    name: Annotated[str | None, Parameter(name=["--name", "-n"], help="Name of the session.")] = None
    file: Annotated[str | None, Parameter(name=["--file", "-f"], help="Spec file (YAML); - for stdin.")] = None
    type: Annotated[SessionType | None, Parameter(help="Session type.")] = None
    image: Annotated[
        str | None, Parameter(help="Image: host, venv:NAME or a container image. [env: SOKOVAN_IMAGE]")
    ] = None
    cpus: Annotated[str | None, Parameter(help="CPUs per kernel: 2, 0.5.")] = None
    mem: Annotated[str | None, Parameter(help="Memory per kernel: 4GiB; default: its share of GPUs, else CPUs.")] = None
    gpus: Annotated[str | None, Parameter(help="GPUs per kernel: 1, 8, 0.5.")] = None
    resources: Annotated[
        tuple[str, ...],
        Parameter(name="--slot", negative=(), help="Other resource per kernel: NAME=AMOUNT. Repeatable."),
        NameValues("--slot", "cuda.shares=0.5"),
    ] = ()
    size: Annotated[int | None, Parameter(help="Number of kernels, started together as a gang; default: 1.")] = None
    minimum: Annotated[int | None, Parameter(help="Minimum number of kernels to start with.")] = None
    environment: Annotated[
        tuple[str, ...],
        Parameter(name=["--env", "-e"], negative=(), help="Environment variable: NAME=VALUE. Repeatable."),
        NameValues("--env", "SEED=1"),
    ] = ()
    secrets: Annotated[
        tuple[str, ...],
        Parameter(name="--secret-env", negative=(), help="Secret variable: NAME (value from here) or NAME=VALUE."),
        SecretValues("--secret-env", "HF_TOKEN=..."),
    ] = ()
    mounts: Annotated[
        tuple[str, ...],
        Parameter(name="--mount", negative=(), help="Mount a folder: SOURCE:TARGET (read-only) or SOURCE:TARGET:rw."),
    ] = ()
    upload: Annotated[
        str | None,
        Parameter(help="Run in a copy of this folder; --upload alone: the current one."),
    ] = None
    workdir: Annotated[
        str | None,
        Parameter(help="Folder on the agent; none: its own; default: current, if local."),
    ] = None
    ports: Annotated[
        tuple[str, ...],
        Parameter(name="--port", negative=(), help="Service port: NAME[=PORT][/tcp]; without PORT any free one."),
    ] = ()
    labels: Annotated[
        tuple[str, ...],
        Parameter(name=["--label", "-l"], negative=(), help="Label of the session, for ps -l: NAME=VALUE. Repeatable."),
        NameValues("--label", "team=vision"),
    ] = ()
    require: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Use only agents with this label: NAME=VALUE. Repeatable."),
        NameValues("--require", "zone=a"),
    ] = ()
    where: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Agent labels: 'zone in (a, b)', 'nvme exists'. Repeatable."),
    ] = ()
    tolerations: Annotated[
        tuple[str, ...],
        Parameter(name="--tolerate", negative=(), help="Allow agents with this taint: KEY or KEY=VALUE. Repeatable."),
    ] = ()
    affinity: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Run near sessions: 'app=db within rack'. Repeatable."),
    ] = ()
    anti_affinity: Annotated[
        tuple[str, ...],
        Parameter(negative=(), help="Run apart from sessions: 'app=db'. Repeatable."),
    ] = ()
    topology: Annotated[str | None, Parameter(help="Topology constraint: hard or soft, with a tier: hard:rack.")] = None
    queue: Annotated[str | None, Parameter(help="Queue to submit to. [env: SOKOVAN_QUEUE]")] = None
    group: Annotated[str | None, Parameter(help="Group to account to. [env: SOKOVAN_GROUP]")] = None
    scaling_group: Annotated[str | None, Parameter(help="Scaling group. [env: SOKOVAN_SCALING_GROUP]")] = None
    priority: Annotated[int | None, Parameter(help="Priority; higher runs first.")] = None
    preemptible: Annotated[
        bool | None, Parameter(negative="--not-preemptible", help="Whether it may be preempted.")
    ] = None
    preemption: Annotated[Literal["always", "never"] | None, Parameter(help="Whether it may preempt others.")] = None
    on_preempt: Annotated[Literal["end", "requeue"] | None, Parameter(help="Action after an eviction.")] = None
    booking: Annotated[str | None, Parameter(help="Booking whose agents it runs on; see booking ls.")] = None
    deadline: Annotated[str | None, Parameter(help="Time to have ended by: 2030-01-31T18:00:00Z.")] = None
    checkpoint: Annotated[str | None, Parameter(help="Longest time between two saves of the program: 10m.")] = None
    migratable: Annotated[bool | None, Parameter(negative=(), help="May be moved and restarted.")] = None
    borrow: Annotated[
        bool | None, Parameter(negative=(), help="Run on unused guarantees of queues; evicted when they need them.")
    ] = None
    stop_grace: Annotated[str | None, Parameter(name="--grace", help="Time from SIGTERM to SIGKILL: 10s, 2m.")] = None
    nominated: Annotated[str | None, Parameter(name="--nominate", help="Agent to prefer, if it has room.")] = None
    depends_on: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Wait until this session has succeeded. Repeatable.")
    ] = ()
    gates: Annotated[
        tuple[str, ...],
        Parameter(name="--hold", negative=(), help="Hold the session until session release; value: name of a gate."),
    ] = ()
    starts_at: Annotated[str | None, Parameter(help="Do not start before: 2030-01-31T18:00:00Z.")] = None
    time_limit: Annotated[str | None, Parameter(help="Maximum run time: 90s, 30m, 4h, 2d.")] = None
    idle_timeout: Annotated[str | None, Parameter(help="End it when unused this long: 30m; interactive only.")] = None
    array: Annotated[str | None, Parameter(help="One session per index: 0-9, 1,3,7-9; %N: at most N run at once.")] = (
        None
    )
    attempts: Annotated[int | None, Parameter(help="Attempts to start it, on other agents first; default: 3.")] = None
    on_agent_lost: Annotated[Literal["end", "requeue"] | None, Parameter(help="Action when its agent is lost.")] = None

    def bodies(self, command: Sequence[str], settings: ClientSettings) -> list[SessionBody]:
        """The requests without their documents. Raises InvalidSetting, InvalidSpecFile."""
        return [request.body for request in self.requests(command, settings)]

    def requests(self, command: Sequence[str], settings: ClientSettings) -> list[RequestedSession]:
        """One request, or one per document of --file.

        Raises InvalidSetting, InvalidSpecFile.
        """
        options = self._options()
        if self.file is None:
            return [RequestedSession(with_defaults(session_body(list(command), **options), settings))]
        documents = read_spec_file(self.file)
        if command and len(documents) > 1:
            raise InvalidSetting(
                f"{self.file} contains {len(documents)} sessions; a command cannot apply to all of them",
                hint="leave out the command, or use a file with one session",
            )
        return [
            RequestedSession(
                with_defaults(session_body(list(command), base=document.body, **options), settings), document
            )
            for document in documents
        ]

    def _options(self) -> dict[str, Any]:
        """The flags that were given, by the field of SessionBody."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in {"file", "upload"}}
        return {name: _read_flag(name, value) for name, value in given.items() if value not in {None, ()}}


NO_FLAGS = SessionFlags()


def _read_flag(name: str, value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    marks = get_type_hints(SessionFlags, include_extras=True)[name].__metadata__
    return next((mark.read(value) for mark in marks if isinstance(mark, NameValues)), list(value))


def read_spec_file(path: str) -> list[SpecDocument[SessionBody]]:
    """Read the sessions of a spec file. Raises InvalidSpecFile."""
    from sokovan.sdk.spec.session_spec import read_spec_documents  # noqa: PLC0415  # YAML loads only here

    return read_spec_documents(*read_text_file(path))


def read_text_file(path: str) -> tuple[str, str]:
    """The text of a file, and its name as messages show it. Raises InvalidSpecFile."""
    shown = "standard input" if path == STANDARD_INPUT else path
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise InvalidSpecFile(f"{shown} is larger than 1 MiB ({FILE_MAX} bytes)", hint=SPLIT_HINT)
        text = content.decode()
    except OSError as error:
        raise InvalidSpecFile(
            f"cannot read {shown}: {error.strerror or error}", hint="check the path given with --file"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidSpecFile(
            f"{shown} is not text: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error
    return text, shown
