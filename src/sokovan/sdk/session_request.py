"""Builds SessionBody, the API's request for a session, from options and flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.local_folder import chosen_workdir
from sokovan.wire.api.bodies import Amount
from sokovan.wire.api.sessions import MountBody, RunOptions, ServicePortBody, SessionBody

# Users request `gpu`; the scheduler has one slot for whole devices and one for shares.
GPU = "gpu"
GPU_SLOT = "cuda.device"
GPU_SHARES = "cuda.shares"

# Options that are shorthand for an entry of `resources`.
_AMOUNTS = {"cpus": "cpu", "mem": "mem", "gpus": GPU}


def session_body(
    command: str | Sequence[str] = (), *, base: SessionBody | None = None, **options: Unpack[RunOptions]
) -> SessionBody:
    """Build the request for a session. Raises InvalidSetting.

    Options override the fields of `base`; mappings, such as `environment`, are merged into those of `base`.

    >>> session_body("python train.py", gpus=8, size=4).resources
    {'cuda.device': 8}
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(given.keys() - RunOptions.__annotations__.keys())
    if unknown:
        raise InvalidSetting(
            f"a session has no option {unknown[0]!r}",
            hint=f"the options are {', '.join(sorted(RunOptions.__annotations__))}",
        )
    amounts = {slot: given.pop(option) for option, slot in _AMOUNTS.items() if option in given}
    if amounts or "resources" in given:
        given["resources"] = _resources(given.get("resources", {}), amounts)
    words = words_of(command)
    if words:
        given["command"] = words
    body = base or SessionBody()
    if "workdir" in given:
        given["workdir"] = chosen_workdir(given["workdir"])
    if "attempts" in given:
        given["retry"] = replace(given.get("retry", body.retry), attempts=given.pop("attempts"))
    return replace(body, **{name: _field_value(name, value, getattr(body, name)) for name, value in given.items()})


def _resources(named: Mapping[str, Amount], amounts: Mapping[str, Amount]) -> dict[str, Amount]:
    """Amounts by slot, of which each is given once. Raises InvalidSetting."""
    slots, more = slots_of(named), slots_of(amounts)
    if len(slots) < len(named) or slots.keys() & more.keys():
        slot = min(slots.keys() & more.keys(), default=GPU_SLOT)
        raise InvalidSetting(f"{slot} is given twice", hint=f"give one amount of {slot}")
    return {**slots, **more}


def words_of(command: str | Sequence[str]) -> list[str]:
    """Split a command string into words as a shell would, without running a shell."""
    if not isinstance(command, str):
        return list(command)
    import shlex  # noqa: PLC0415  # a list does not need it

    try:
        return shlex.split(command)
    except ValueError as error:
        raise InvalidSetting(
            f"the command {command[:80]!r} cannot be split into arguments: {error}",
            hint="close its quotes, or give a list",
        ) from error


def slots_of(amounts: Mapping[str, Amount]) -> dict[str, Amount]:
    """Amounts by slot; `gpu` becomes the slot of whole devices, or that of shares."""
    return {_slot(name, amount): amount for name, amount in amounts.items()}


def read_mount(text: str) -> MountBody:
    """Read SOURCE:TARGET, SOURCE:TARGET:rw or SOURCE:TARGET:ro. Raises InvalidSetting."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target or mode not in {"", "ro", "rw"}:
        raise InvalidSetting(
            f"{text[:200]!r} is not a mount", hint="use SOURCE:TARGET, or SOURCE:TARGET:rw for write access"
        )
    return MountBody(source=source, target=target, read_only=mode != "rw")


def read_port(text: str) -> ServicePortBody:
    """Read NAME or NAME=PORT, each with /tcp or without. Raises InvalidSetting."""
    service, slash, protocol = text.partition("/")
    name, equals, number = service.partition("=")
    # A number alone is a port without a name.
    readable = number.isdecimal() and len(number) <= len("65535") if equals else not name.isdecimal()
    if not name or not readable or (slash and protocol not in {"http", "tcp"}):
        hint = "use NAME for any free port, NAME=PORT for a fixed one, and /tcp after it if it is not HTTP"
        raise InvalidSetting(f"{text[:200]!r} is not a service port", hint=hint)
    return ServicePortBody(
        name=name, port=int(number) if equals else 0, protocol="tcp" if protocol == "tcp" else "http"
    )


# Lists whose items may be given as strings.
_ITEM_READERS: dict[str, Callable[[str], Any]] = {"mounts": read_mount, "ports": read_port}


def _field_value(name: str, value: Any, base: Any) -> Any:
    """The value of a field of SessionBody: merged into a mapping, copied into a list."""
    if isinstance(base, dict):
        return {**base, **value}
    if isinstance(base, list):
        read = _ITEM_READERS.get(name)
        return [read(item) if read is not None and isinstance(item, str) else item for item in value]
    return value


def _slot(name: str, amount: Amount) -> str:
    if name != GPU:
        return name
    is_part = not isinstance(amount, int) and "." in str(amount) and not str(amount).rstrip("0").endswith(".")
    return GPU_SHARES if is_part else GPU_SLOT
