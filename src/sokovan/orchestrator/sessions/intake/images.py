"""Chooses the image of a kernel and its architecture."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sokovan.domain.cluster.image import ARCHITECTURE_DEFAULT, HOST_IMAGE, Image
from sokovan.domain.ids import is_name

# Images of the process runtime need no entry in the catalog: the machine itself, and virtual environments.
_VENV = re.compile(r"venv:[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def is_process_image(name: str) -> bool:
    """Whether this is an image of the process runtime, which needs no catalog entry."""
    return name == HOST_IMAGE or _VENV.fullmatch(name) is not None


def choose_image(name: str, known: Sequence[Image], *, architecture: str, preferred: str) -> Image | None:
    """The image to start from; None if there is none for a usable architecture.

    `known` are the catalog's images of this name. If no `architecture` is requested,
    the `preferred` one comes first, then the default, then any. Images of the process
    runtime exist for every architecture.
    """
    by_architecture = {image.architecture: image for image in known}
    if architecture:
        found = by_architecture.get(architecture)
        return found or (Image(name, architecture) if is_process_image(name) and is_name(architecture) else None)
    for candidate in (preferred, ARCHITECTURE_DEFAULT):
        if candidate in by_architecture:
            return by_architecture[candidate]
    if is_process_image(name):
        return Image(name, preferred)
    return known[0] if known else None
