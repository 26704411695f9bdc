"""Images that kernels are started from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sokovan.domain.checks import require_slots
from sokovan.domain.cluster.agent import DOCKER_RUNTIME, PROCESS_RUNTIME
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, checked_name, require_digests
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# Images of the process runtime need no entry in the catalog: the machine itself, and virtual environments.
HOST_IMAGE = "host"
_VENV = re.compile(r"venv:[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Image:
    """An image by reference, for one processor architecture."""

    name: str
    architecture: str = ARCHITECTURE_DEFAULT
    digest: str | None = None
    slots_min: ResourceSlot = NO_SLOTS

    def __post_init__(self) -> None:
        checked_name(self.name, what="image")
        checked_name(self.architecture, what="architecture")
        require_slots(self.slots_min, what=f"image {self.name}", field="slots_min")
        if self.digest is not None:
            require_digests({self.name: self.digest}, what=f"image {self.name}")


def image_reference(name: str, digests: Mapping[str, str]) -> str:
    """The image that an agent is asked for: pinned, if its digest is known.

    >>> image_reference("python:3.12", {"python:3.12": "sha256:09ab"})
    'python:3.12@sha256:09ab'
    """
    return f"{name}@{digests[name]}" if name in digests else name


def is_process_image(name: str) -> bool:
    """Whether this is an image of the process runtime, which needs no catalog entry."""
    return name == HOST_IMAGE or _VENV.fullmatch(name) is not None


def image_runtime(name: str) -> str:
    """The runtime that runs kernels of an image; empty for no image.

    >>> image_runtime("venv:torch"), image_runtime("python:3.12")
    ('process', 'docker')
    """
    if not name:
        return ""
    return PROCESS_RUNTIME if is_process_image(name) else DOCKER_RUNTIME
