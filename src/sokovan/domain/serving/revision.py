"""Revisions: what the replicas of a deployment run. They are never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sokovan.domain.checks import LABEL_TEXT_MAX, require_int, require_kind, require_tuple
from sokovan.domain.commands import require_command, require_environment, require_secret_names
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import checked_name
from sokovan.domain.serving.engine import CONCURRENCY_MAX, Probe, require_model
from sokovan.domain.session import Mount

KERNELS_PER_REPLICA_MAX = 64
QUEUED_MAX = 100_000
DAY_S = 24 * 3600
RESOURCES_MAX = 64
_SEALED = re.compile(r"[A-Za-z0-9+/=._-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How many requests proxies queue for a deployment, and how long they wait."""

    queued_max: int = 1_000
    queue_wait_s: int = 30
    cold_wait_s: int = 600

    def __post_init__(self) -> None:
        require_int(self.queued_max, what="request limits", field="queued_max", least=0, most=QUEUED_MAX)
        for name in ("queue_wait_s", "cold_wait_s"):
            require_int(getattr(self, name), what="request limits", field=name, least=1, most=3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionSpec:
    """The engine, the model, and the resources of each replica.

    `resources` are amounts as users write them; `arguments` are passed to the engine after
    those that its generator makes. None means the default of the engine. `secrets` are the
    names of secret variables, `sealed` their values, encrypted; empty once the deployment has
    ended.
    """

    variant: str
    model: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    image: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    kernels: int = 1
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    sealed: str = field(default="", repr=False)
    probe: Probe | None = None
    startup_timeout_s: int = 1_800
    drain_timeout_s: int = 300
    concurrency_max: int | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)

    def __post_init__(self) -> None:
        what = "revision"
        checked_name(self.variant, what="engine")
        require_tuple(self.mounts, Mount, what=what, field="mounts")
        if self.model != "":
            require_model(self.model, [one.target for one in self.mounts], what=what)
        if self.image != "":
            checked_name(self.image, what="image")
        require_command(self.command, what=what)
        require_command(self.arguments, what=what)
        require_environment(self.environment, what=what)
        require_tuple(self.secrets, str, what=what, field="secrets")
        require_secret_names(self.secrets, [self.environment], what=what)
        if not isinstance(self.sealed, str) or not _SEALED.fullmatch(self.sealed):
            raise InvalidSpec(what=what, field="sealed", value=self.sealed, problem="is no sealed text")
        self._check_resources()
        if self.probe is not None:
            require_kind(self.probe, Probe, what=what, field="probe")
        require_kind(self.limits, RequestLimits, what=what, field="limits")
        require_int(self.kernels, what=what, field="kernels", least=1, most=KERNELS_PER_REPLICA_MAX)
        require_int(self.startup_timeout_s, what=what, field="startup_timeout_s", least=1, most=DAY_S)
        require_int(self.drain_timeout_s, what=what, field="drain_timeout_s", least=0, most=DAY_S)
        if self.concurrency_max is not None:
            require_int(self.concurrency_max, what=what, field="concurrency_max", least=1, most=CONCURRENCY_MAX)

    def _check_resources(self) -> None:
        what, given = "revision", self.resources
        if not isinstance(given, Mapping) or len(given) > RESOURCES_MAX:
            problem = f"must be a mapping of at most {RESOURCES_MAX} amounts"
            raise InvalidSpec(what=what, field="resources", value=given, problem=problem)
        for name, amount in given.items():
            checked_name(name, what="slot")
            if not isinstance(amount, str) or not 1 <= len(amount) <= LABEL_TEXT_MAX:
                raise InvalidSpec(what=what, field=f"resources.{name}", value=amount, problem="must be an amount")
