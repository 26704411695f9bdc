"""Puts requests that are sent together into one frame.

The kernels of a gang have the list of all its hosts in their environment and in a file.
With every kernel for itself these lists would grow with the square of the gang's size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from sokovan.wire.frames import BUNDLE_MAX, CommonLaunch, CreateKernel, Frame, Request, RequestBundle


def bundles_of(requests: Sequence[Request]) -> list[Frame]:
    """The frames for these requests, in their order; one by itself is not bundled."""
    parts = [requests[start : start + BUNDLE_MAX] for start in range(0, len(requests), BUNDLE_MAX)]
    return [part[0] if len(part) == 1 else _bundle(part) for part in parts]


def requests_of(bundle: RequestBundle) -> tuple[Request, ...]:
    """The whole requests of a bundle."""
    return tuple(_completed(request, bundle.common) for request in bundle.requests)


def _bundle(requests: Sequence[Request]) -> RequestBundle:
    launches: dict[str, list[CreateKernel]] = {}
    for request in requests:
        if isinstance(request.command, CreateKernel):
            launches.setdefault(request.command.session_id, []).append(request.command)
    common = {
        session_id: CommonLaunch(_shared([one.environment for one in given]), _shared([one.files for one in given]))
        for session_id, given in launches.items()
        if len(given) > 1
    }
    return RequestBundle(requests=tuple(_without(request, common) for request in requests), common=common)


def _shared(given: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The entries that all of them have."""
    first, *others = given
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


def _without(request: Request, common: Mapping[str, CommonLaunch]) -> Request:
    command = request.command
    if not isinstance(command, CreateKernel) or command.session_id not in common:
        return request
    shared = common[command.session_id]
    environment = {name: value for name, value in command.environment.items() if name not in shared.environment}
    files = {name: value for name, value in command.files.items() if name not in shared.files}
    return replace(request, command=replace(command, environment=environment, files=files))


def _completed(request: Request, common: Mapping[str, CommonLaunch]) -> Request:
    command = request.command
    if not isinstance(command, CreateKernel) or command.session_id not in common:
        return request
    shared = common[command.session_id]
    environment, files = {**shared.environment, **command.environment}, {**shared.files, **command.files}
    return replace(request, command=replace(command, environment=environment, files=files))
