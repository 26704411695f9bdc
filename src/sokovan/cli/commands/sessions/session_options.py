"""What people ask for on the command line, as a request for a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from sokovan.sdk.errors import ApiProblem, InvalidSetting, InvalidSpecFile
from sokovan.sdk.preferences import with_defaults
from sokovan.sdk.session_request import read_mount, read_port, session_body
from sokovan.sdk.settings import ClientSettings
from sokovan.wire.api.sessions import SessionBody

if TYPE_CHECKING:
    from sokovan.sdk.spec.spec_document import SpecDocument

FILE_MAX = 1024 * 1024
STANDARD_INPUT = "/dev/stdin"
SESSION = Group("The session", sort_key=10)


@dataclass(frozen=True, slots=True)
class RequestedSession:
    """A request for a session, and the document it comes from, if any."""

    body: SessionBody
    written: SpecDocument | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """What the server finds wrong with it is told with its lines in the file."""
        try:
            yield
        except ApiProblem as problem:
            if self.written is not None and problem.problems:
                problem.message = self.written.describe(problem.problems, self.body)
            raise


@Parameter(name="*", group=SESSION)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFlags:
    """A session in options; what is not said, others choose."""

    name: Annotated[str | None, Parameter(name=["--name", "-n"], help="A name of your own.")] = None
    file: Annotated[str | None, Parameter(name=["--file", "-f"], help="A spec (YAML); - is standard input.")] = None
    type: Annotated[
        Literal["interactive", "batch", "inference", "system"] | None, Parameter(help="Batch, if not said.")
    ] = None
    image: Annotated[str | None, Parameter(help="host, or venv:NAME; or SOKOVAN_IMAGE.")] = None
    cpus: Annotated[str | None, Parameter(help="Processors for each kernel: 2, 0.5.")] = None
    mem: Annotated[str | None, Parameter(help="Memory for each kernel: 4GiB, 512M.")] = None
    gpus: Annotated[str | None, Parameter(help="GPUs for each kernel: 1, 8, 0.5.")] = None
    slot: Annotated[tuple[str, ...], Parameter(negative=(), help="Any other resource: NAME=AMOUNT.")] = ()
    size: Annotated[int | None, Parameter(help="How many kernels; they start together.")] = None
    minimum: Annotated[int | None, Parameter(help="With how many of them it can start.")] = None
    env: Annotated[tuple[str, ...], Parameter(name=["--env", "-e"], negative=(), help="A variable: NAME=VALUE.")] = ()
    mount: Annotated[tuple[str, ...], Parameter(negative=(), help="A folder: SOURCE:TARGET, or SOURCE:TARGET:rw.")] = ()
    port: Annotated[tuple[str, ...], Parameter(negative=(), help="A port it serves: NAME=PORT, NAME=PORT/tcp.")] = ()
    require: Annotated[tuple[str, ...], Parameter(negative=(), help="A label its machines must have: NAME=VALUE.")] = ()
    topology: Annotated[str | None, Parameter(help="hard or soft, with the highest tier: hard:rack.")] = None
    queue: Annotated[str | None, Parameter(help="The queue; or SOKOVAN_QUEUE.")] = None
    group: Annotated[str | None, Parameter(help="The project it counts against; or SOKOVAN_GROUP.")] = None
    scaling_group: Annotated[str | None, Parameter(help="The pool of machines; or SOKOVAN_SCALING_GROUP.")] = None
    priority: Annotated[int | None, Parameter(help="Higher goes first.")] = None
    depends_on: Annotated[tuple[str, ...], Parameter(negative=(), help="A session that must succeed first.")] = ()
    starts_at: Annotated[str | None, Parameter(help="Not before this time: 2030-01-31T18:00:00Z.")] = None
    time_limit: Annotated[str | None, Parameter(help="For how long it may run: 90s, 30m, 4h, 2d.")] = None
    on_agent_lost: Annotated[
        Literal["end", "requeue"] | None, Parameter(help="What becomes of it without its machine.")
    ] = None

    def bodies(self, command: Sequence[str], settings: ClientSettings) -> list[SessionBody]:
        """The requests that are meant. Raises InvalidSetting, InvalidSpec."""
        return [one.body for one in self.asked(command, settings)]

    def asked(self, command: Sequence[str], settings: ClientSettings) -> list[RequestedSession]:
        """The same, each with its document. Raises InvalidSetting, InvalidSpec."""
        options = self._options()
        if self.file is None:
            return [RequestedSession(with_defaults(session_body(list(command), **options), settings))]
        specs = read_spec_file(self.file)
        if command and len(specs) > 1:
            raise InvalidSetting(f"{self.file} holds {len(specs)} sessions, and one command cannot be for all of them")
        said = session_body(list(command), **options)
        return [RequestedSession(with_defaults(_changed(spec.body, said), settings), spec) for spec in specs]

    def _options(self) -> dict[str, Any]:
        plain = ("name", "type", "image", "cpus", "mem", "gpus", "size", "minimum", "topology", "queue", "group",
                 "scaling_group", "priority", "starts_at", "time_limit", "on_agent_lost")  # fmt: skip
        given = {name: getattr(self, name) for name in plain}
        return {name: value for name, value in given.items() if value is not None} | {
            "resources": pairs(self.slot, option="--slot", example="cuda.shares=0.5"),
            "environment": pairs(self.env, option="--env", example="SEED=1"),
            "require": pairs(self.require, option="--require", example="zone=a"),
            "mounts": [read_mount(text) for text in self.mount],
            "ports": [read_port(text) for text in self.port],
            "depends_on": list(self.depends_on),
        }


NO_FLAGS = SessionFlags()


def pairs(texts: Sequence[str], *, option: str, example: str) -> dict[str, str]:
    """Texts like NAME=VALUE by their names. Raises InvalidSetting."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidSetting(f"{option} {text[:80]!r} is not NAME=VALUE", hint=f"write {option} {example}")
        if name in found:
            raise InvalidSetting(f"{option} gives {name!r} twice", hint="say it once")
        found[name] = value
    return found


def read_spec_file(path: str) -> list[SpecDocument]:
    """The sessions of a spec. Raises InvalidSpec."""
    from sokovan.sdk.spec.session_spec import read_spec_documents  # noqa: PLC0415  # YAML loads only here

    shown = "standard input" if path == STANDARD_INPUT else path
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise InvalidSpecFile(f"{shown} is larger than {FILE_MAX} bytes", hint="a spec is written by hand")
        text = content.decode()
    except OSError as error:
        raise InvalidSpecFile(
            f"cannot read {shown}: {error.strerror or error}", hint="check the path after -f"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidSpecFile(
            f"{shown} is not text: {error.reason} at byte {error.start}", hint="save it as UTF-8"
        ) from error
    return read_spec_documents(text, shown)


def _changed(spec: SessionBody, said: SessionBody) -> SessionBody:
    """A spec with what was said on the command line over it."""
    nothing = SessionBody()
    names = [name for name in SessionBody.__dataclass_fields__ if getattr(said, name) != getattr(nothing, name)]
    merged: dict[str, Any] = {
        name: {**getattr(spec, name), **getattr(said, name)} if name in _MAPPINGS else getattr(said, name)
        for name in names
    }
    return replace(spec, **merged)


_MAPPINGS = frozenset({"resources", "environment", "require"})
