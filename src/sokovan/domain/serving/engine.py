"""Input and output of definition generators: how an engine is started and probed.

A generator knows the command line of one engine. The port is not known before a replica
is placed, so commands and variables contain PORT_MARK, which the launch replaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from sokovan.domain.checks import require_int, require_kind, require_tuple
from sokovan.domain.cluster.mount_roots import is_beneath
from sokovan.domain.commands import is_plain_path, require_command, require_environment
from sokovan.domain.errors import InvalidInput, InvalidSpec, nearest, quoted
from sokovan.domain.ids import checked_name
from sokovan.domain.serving.health import is_health_path

LOOPBACK = "127.0.0.1"
# Stands for the leased port in the command and the variables of a replica.
PORT_MARK = "{port}"
# Name of the service port that every replica leases; its number is in SOKOVAN_PORT_SERVE.
SERVICE_PORT = "serve"
ACCELERATORS_MAX = 1_024
CONCURRENCY_MAX = 100_000
DRAIN_S_MAX = 24 * 3600
PROBE_MS_MAX = 3_600_000
MODEL_MAX = 512

# As on the model hubs: name, or owner/name, with an optional tag, such as a quantization.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:[\w.-]+)?", re.ASCII)
_SECRET = re.compile(r"[\w.~+/=-]{0,512}", re.ASCII)


class UnknownEngine(InvalidInput):
    """No engine has this name."""

    code = "unknown-engine"
    hint = "name one of the known engines, or use custom with a command of your own"

    def __init__(self, name: object, known: Sequence[str]) -> None:
        super().__init__(f"there is no engine {quoted(name)}; {nearest(str(name), known)}")


class RoutingPolicy(StrEnum):
    """How a proxy chooses among the endpoints of a deployment."""

    LEAST_LOAD = "least-load"
    PREFIX = "prefix"
    STICKY = "sticky"
    ROUND_ROBIN = "round-robin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How an endpoint is checked: by a GET of `path`; without one, by a connection.

    While a replica starts, it is checked more often than later. With `smoke` it also answers
    a request for one token before it serves, if its engine has a path for that.
    """

    path: str = ""
    warming_interval_ms: int = 1_000
    interval_ms: int = 5_000
    timeout_ms: int = 5_000
    smoke: bool = True

    def __post_init__(self) -> None:
        require_kind(self.smoke, bool, what="probe", field="smoke")
        if self.path and not is_health_path(self.path):
            problem = "must begin with / and be a path of at most 256 plain characters"
            raise InvalidSpec(what="probe", field="path", value=self.path, problem=problem)
        for name in ("warming_interval_ms", "interval_ms", "timeout_ms"):
            require_int(getattr(self, name), what="probe", field=name, least=100, most=PROBE_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One replica of a revision, as far as its engine is concerned.

    `arguments` are appended to the command of an engine; `command` is for `custom` only.
    `mounts` are the folders in the kernel beneath which a model's path must lie.
    """

    variant: str
    model: str = ""
    served_name: str
    accelerators: int = 0
    port: str = PORT_MARK
    secret: str = ""
    drain_timeout_s: int = 300
    concurrency_max: int | None = None
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    probe: Probe | None = None

    def __post_init__(self) -> None:
        checked_name(self.served_name, what="served model")
        what = self.what
        require_int(self.accelerators, what=what, field="accelerators", least=0, most=ACCELERATORS_MAX)
        require_int(self.drain_timeout_s, what=what, field="drain_timeout_s", least=0, most=DRAIN_S_MAX)
        if self.concurrency_max is not None:
            require_int(self.concurrency_max, what=what, field="concurrency_max", least=1, most=CONCURRENCY_MAX)
        require_command(self.command, what=what)
        require_tuple(self.arguments, str, what=what, field="arguments")
        require_environment(self.environment, what=what)
        require_tuple(self.mounts, str, what=what, field="mounts")
        if self.probe is not None:
            require_kind(self.probe, Probe, what=what, field="probe")
        # The secret becomes a header and an argument: nothing in it may end either.
        if not isinstance(self.secret, str) or not _SECRET.fullmatch(self.secret):
            raise InvalidSpec(what=what, field="secret", value="...", problem="has characters that no key may have")
        if self.model:
            require_model(self.model, self.mounts, what=what)

    @property
    def what(self) -> str:
        """The subject of error messages."""
        return f"deployment {self.served_name}"

    @property
    def is_local(self) -> bool:
        """Whether the model is a path beneath a mount, and not a name on a hub."""
        return self.model.startswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDefinition:
    """How a replica is started, probed and addressed.

    An empty `command` is the entry point of the image. `upstream_model` is what the engine
    calls the model, which the gateway writes into requests. `checks_secret` says whether the
    engine refuses requests without the secret of its replica. A smoke request for one token
    goes to `smoke_path`; empty: none. The engine says at `metrics_path` how many requests it
    has, in Prometheus's text format; empty: it does not. `event_usage` is how it says the
    tokens so far with each event of a stream, if it is asked to: in the member `usage`, or
    `timings`; empty: it cannot. `resources` are amounts that a replica gets where its revision
    names none of that slot; others are those of any session.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    probe: Probe
    upstream_model: str
    concurrency_max: int
    image: str = ""
    policy: RoutingPolicy = RoutingPolicy.PREFIX
    streams: bool = True
    checks_secret: bool = True
    smoke_path: str = ""
    metrics_path: str = ""
    event_usage: Literal["", "usage", "timings"] = ""
    resources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        what = f"definition of {self.upstream_model}"
        require_command(self.command, what=what)
        require_environment(self.environment, what=what)
        require_kind(self.probe, Probe, what=what, field="probe")
        require_kind(self.policy, RoutingPolicy, what=what, field="policy")
        require_int(self.concurrency_max, what=what, field="concurrency_max", least=1, most=CONCURRENCY_MAX)
        for name in ("smoke_path", "metrics_path"):
            path = getattr(self, name)
            if path and not is_health_path(path):
                problem = "must begin with / and be a path of at most 256 plain characters"
                raise InvalidSpec(what=what, field=name, value=path, problem=problem)


def require_model(model: object, mounts: Sequence[str], *, what: str) -> None:
    """Require a name on a hub, or a path beneath a mount. Raises InvalidSpec."""
    if not isinstance(model, str) or len(model) > MODEL_MAX:
        problem = f"must be a text of at most {MODEL_MAX} characters"
        raise InvalidSpec(what=what, field="model", value=model, problem=problem)
    if model.startswith("/"):
        problem = "" if is_plain_path(model) else "is not a plain absolute path"
        if not problem and not is_beneath(model, mounts):
            problem = f"is in none of the mounted folders ({', '.join(mounts) or 'there are none'})"
        hint = "mount the folder of the model, and give its path inside the kernel"
    else:
        problem = "" if _HUB_NAME.fullmatch(model) else "is neither a name such as owner/model nor an absolute path"
        hint = "give the name of a model on its hub, or the absolute path of a mounted one"
    if problem:
        raise InvalidSpec(what=what, field="model", value=model, problem=problem, hint=hint)


def with_port(text: str, port: int) -> str:
    """A word of a command or a variable with the leased port in place of its mark."""
    return text.replace(PORT_MARK, str(port))
