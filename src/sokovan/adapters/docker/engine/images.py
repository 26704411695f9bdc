"""Images of a container engine: looked up, and pulled from their registry."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from sokovan.adapters.docker.engine.client import NOT_FOUND, EngineClient, EngineRefusal, EngineUnavailable
from sokovan.adapters.docker.engine.registry_credentials import credentials_for
from sokovan.domain.cluster.image import HOST_IMAGE
from sokovan.domain.ids import is_name
from sokovan.ports.runtime import ImageUnavailable, RuntimeFailure
from sokovan.wire.frames import IMAGES_MAX, CreateKernel

VENV = "venv:"
LINE_BYTES_MAX = 1 << 20
_HUB_NAME = "docker.io/"

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class EngineImages:
    """The images of an engine; `home` is that of the agent's account."""

    engine: EngineClient
    home: Path

    async def is_ready(self, image: str) -> bool:
        """Whether the engine has it; raises ImageUnavailable for what is no name of one."""
        return await self.identity(image) != ""

    async def identity(self, image: str) -> str:
        """The digest of an image, or its id; empty if the engine does not have it."""
        found = await self.found(image)
        if found is None:
            return ""
        digests = found.get("RepoDigests") or []
        return str(digests[0]).rpartition("@")[2] if digests else str(found.get("Id", ""))

    async def found(self, image: str) -> dict[str, Any] | None:
        """The engine's description of an image; None if it does not have it.

        An image that was built here has no digest of a registry: it is known by its id.
        """
        reference = checked_reference(image)
        digest = reference["digest"]
        if not digest:
            return await self._described(image)
        # Podman refuses a reference with both a tag and a digest.
        found = await self._described(f"{reference['name']}@{digest}")
        if found is None:
            built = await self._described(image.partition("@")[0])
            found = built if built is not None and built.get("Id") == digest else None
        return found

    async def _described(self, image: str) -> dict[str, Any] | None:
        try:
            about: dict[str, Any] = await self.engine.call("GET", f"/images/{image}/json")
        except EngineRefusal as problem:
            if problem.status == NOT_FOUND:
                return None
            raise ImageUnavailable(image=image, problem=problem.problem) from problem
        return about

    async def installed(self) -> tuple[str, ...]:
        """The images of the engine by their tags, at most IMAGES_MAX.

        Podman names the registry also of those that need none.
        """
        listed = await self.engine.call("GET", "/images/json")
        tags = {str(tag) for one in listed or () for tag in one.get("RepoTags") or ()}
        tags |= {tag.removeprefix(_HUB_NAME).removeprefix("library/") for tag in tags if tag.startswith(_HUB_NAME)}
        names = {tag.removesuffix(":latest") for tag in tags} | tags
        return tuple(sorted(name for name in names if is_name(name) and _REFERENCE.fullmatch(name)))[:IMAGES_MAX]

    async def pull(self, image: str, progress: Callable[[str], None]) -> None:
        """Pull an image unless the engine has it.

        `progress` receives a line for each step. Raises ImageUnavailable.
        """
        if await self.is_ready(image):
            return
        reference = checked_reference(image)
        query = {"fromImage": reference["name"], "tag": reference["digest"] or reference["tag"] or "latest"}
        headers = await asyncio.to_thread(credentials_for, image, self.home)
        progress(f"pulling {image}")
        try:
            await self._pull(image, query, headers, progress)
        except (EngineRefusal, EngineUnavailable, ImageUnavailable) as problem:
            raise await self._unavailable(image, reference["digest"], problem) from problem
        identity = await self.identity(image)
        if not identity:
            raise _not_pulled(image, "the engine does not have it after its pull")
        progress(f"ready: {identity}")

    async def _unavailable(self, image: str, digest: str, problem: RuntimeFailure) -> ImageUnavailable:
        """The problem of a pull, and the digest that the engine has by this name if another was expected."""
        found = problem if isinstance(problem, ImageUnavailable) else _not_pulled(image, _text_of(problem))
        name, there = image.partition("@")[0], ""
        if digest:
            with contextlib.suppress(EngineUnavailable):
                there = await self.identity(name)
        if not there:
            return found
        text = f"the catalog expects {digest} of {name}, and the engine has {there}; {found.problem}"
        return ImageUnavailable(image=image, problem=text)

    async def _pull(
        self, image: str, query: Mapping[str, str], headers: Mapping[str, str], progress: Callable[[str], None]
    ) -> None:
        last: dict[str, str] = {}
        async with self.engine.stream("POST", "/images/create", query=query, headers=headers) as pieces:
            rest = b""
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > LINE_BYTES_MAX:
                    raise _not_pulled(image, "the engine reports its progress in no lines")
                for line in lines:
                    _report(image, line, last, progress)
            _report(image, rest, last, progress)


def _report(image: str, line: bytes, last: dict[str, str], progress: Callable[[str], None]) -> None:
    """Pass on a step of a pull once, without the bytes of each moment. Raises ImageUnavailable."""
    if not line.strip():
        return
    said = json.loads(line)
    if said.get("error"):
        raise _not_pulled(image, str(said["error"]))
    layer, status = str(said.get("id", "")), str(said.get("status", ""))
    if status and last.get(layer) != status:
        last[layer] = status
        progress(f"{layer}: {status}" if layer else status)


def _text_of(problem: RuntimeFailure) -> str:
    return problem.problem if isinstance(problem, EngineRefusal) else problem.message


def _not_pulled(image: str, problem: str) -> ImageUnavailable:
    return ImageUnavailable(image=image, problem=f"it could not be pulled: {problem}")


def exact_launch(launch: CreateKernel, found: Mapping[str, Any]) -> CreateKernel:
    """The launch of a pinned image by the id of the one that was found."""
    return replace(launch, image=str(found["Id"])) if "@" in launch.image else launch


def checked_reference(image: str) -> dict[str, str]:
    """The parts of an image's name. Raises ImageUnavailable."""
    if image == HOST_IMAGE or image.startswith(VENV):
        raise ImageUnavailable(image=image, problem="this agent runs containers; name an image of theirs with --image")
    found = _REFERENCE.fullmatch(image)
    if found is None:
        raise ImageUnavailable(image=image, problem="it is no name of a container image")
    return {name: value or "" for name, value in found.groupdict().items()}
