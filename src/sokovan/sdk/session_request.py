"""Builds the API request for a session from the keyword arguments of `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.bodies import Amount
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, ServicePortBody, SessionBody, SessionType

# Users say gpu; the scheduler has one slot for whole devices and one for shares.
GPU = "gpu"
GPU_SLOT = "cuda.device"
GPU_SHARES = "cuda.shares"


class RunOptions(TypedDict, total=False):
    """Options of a session; the server chooses those that are left out."""

    name: str
    type: SessionType
    image: str
    cpus: Amount
    mem: Amount
    gpus: Amount
    resources: Mapping[str, Amount]
    size: int
    minimum: int
    groups: Sequence[KernelGroupBody]
    environment: Mapping[str, str]
    mounts: Sequence[str | MountBody]
    ports: Sequence[str | ServicePortBody]
    labels: Mapping[str, str]
    require: Mapping[str, str]
    architecture: str
    scaling_group: str
    queue: str
    group: str
    priority: int
    topology: str
    depends_on: Sequence[str]
    starts_at: str
    time_limit: int | str
    preemptible: bool
    stop_grace: int | str
    ends_with: Literal["all", "main", "any"]
    tolerates_failures: bool
    on_agent_lost: Literal["end", "requeue"]


def session_body(command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> SessionBody:
    """The request for a session. Raises InvalidSetting.

    >>> session_body("python train.py", gpus=8, size=4).resources
    {'cuda.device': 8}
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(given.keys() - RunOptions.__annotations__.keys())
    if unknown:
        raise InvalidSetting(
            f"a session has no option {unknown[0]!r}",
            hint=f"its options are {', '.join(sorted(RunOptions.__annotations__))}",
        )
    amounts = {"cpu": given.pop("cpus", None), "mem": given.pop("mem", None), GPU: given.pop("gpus", None)}
    requested = {
        **given.pop("resources", {}),
        **{slot: amount for slot, amount in amounts.items() if amount is not None},
    }
    mounts = [mount if isinstance(mount, MountBody) else read_mount(mount) for mount in given.pop("mounts", ())]
    ports = [port if isinstance(port, ServicePortBody) else read_port(port) for port in given.pop("ports", ())]
    lists: dict[str, Any] = {name: list(given.pop(name)) for name in ("depends_on", "groups") if name in given}
    return SessionBody(
        command=words_of(command), resources=slots_of(requested), mounts=mounts, ports=ports, **lists, **given
    )


def words_of(command: str | Sequence[str]) -> list[str]:
    """The arguments of a command; a string is split as a shell would, without a shell."""
    if not isinstance(command, str):
        return list(command)
    import shlex  # noqa: PLC0415  # only for strings

    try:
        return shlex.split(command)
    except ValueError as error:
        raise InvalidSetting(
            f"the command {command[:80]!r} cannot be split into arguments: {error}",
            hint="close its quotes, or give a list",
        ) from error


def slots_of(amounts: Mapping[str, Amount]) -> dict[str, Amount]:
    """Amounts by slot; `gpu` becomes the slot of whole devices or of shares."""
    return {_slot(name, amount): amount for name, amount in amounts.items()}


def read_mount(text: str) -> MountBody:
    """Read SOURCE:TARGET, SOURCE:TARGET:rw or SOURCE:TARGET:ro. Raises InvalidSetting."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target or mode not in {"", "ro", "rw"}:
        raise InvalidSetting(
            f"{text[:200]!r} is not a mount", hint="write SOURCE:TARGET, or SOURCE:TARGET:rw to write to it"
        )
    return MountBody(source=source, target=target, read_only=mode != "rw")


def read_port(text: str) -> ServicePortBody:
    """Read NAME=PORT or NAME=PORT/tcp. Raises InvalidSetting."""
    name, _, rest = text.partition("=")
    number, _, protocol = rest.partition("/")
    if not name or not number.isdecimal() or len(number) > 5 or protocol not in {"", "http", "tcp"}:
        raise InvalidSetting(f"{text[:200]!r} is not a service port", hint="write NAME=PORT, or NAME=PORT/tcp")
    return ServicePortBody(name=name, port=int(number), protocol="tcp" if protocol == "tcp" else "http")


def _slot(name: str, amount: Amount) -> str:
    if name != GPU:
        return name
    is_part = not isinstance(amount, int) and "." in str(amount) and not str(amount).rstrip("0").endswith(".")
    return GPU_SHARES if is_part else GPU_SLOT
