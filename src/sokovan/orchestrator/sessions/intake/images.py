"""Which image a kernel is started from, and for which processor."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sokovan.domain.cluster.image import ARCHITECTURE_DEFAULT, Image
from sokovan.domain.ids import is_name

# What processes run in without an entry in the catalog: the machine itself, and virtual environments.
HOST = "host"
_VENV = re.compile(r"venv:[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def is_process_image(name: str) -> bool:
    """Whether the process runtime knows this image by itself."""
    return name == HOST or _VENV.fullmatch(name) is not None


def chosen_image(name: str, known: Sequence[Image], *, asked: str, preferred: str) -> Image | None:
    """The image to start from, None if there is none for an architecture that will do.

    `known` are the catalog's images of this name. Without an architecture `asked` for,
    the `preferred` one comes first, then the usual one, then any. An image of the
    process runtime is there for each.
    """
    by_architecture = {image.architecture: image for image in known}
    if asked:
        found = by_architecture.get(asked)
        return found or (Image(name, asked) if is_process_image(name) and is_name(asked) else None)
    for architecture in (preferred, ARCHITECTURE_DEFAULT):
        if architecture in by_architecture:
            return by_architecture[architecture]
    if is_process_image(name):
        return Image(name, preferred)
    return known[0] if known else None
