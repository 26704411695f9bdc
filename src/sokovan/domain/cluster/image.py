"""Images that kernels are started from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sokovan.domain.checks import require_slots
from sokovan.domain.cluster.agent import DOCKER_RUNTIME, PROCESS_RUNTIME
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, checked_name
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

# Images of the process runtime need no entry in the catalog: the machine itself, and virtual environments.
HOST_IMAGE = "host"
_VENV = re.compile(r"venv:[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


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
        if self.digest is not None and not (isinstance(self.digest, str) and _DIGEST.fullmatch(self.digest)):
            raise InvalidSpec(
                what=f"image {self.name}",
                field="digest",
                value=self.digest,
                problem="is not sha256: and 64 hexadecimal digits",
            )


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
