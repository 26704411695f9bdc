"""Chooses the image of a kernel and its architecture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from sokovan.domain.cluster.agent import MOUNTS_ANYWHERE, MOUNTS_LABEL
from sokovan.domain.cluster.image import Image, is_process_image
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, is_name
from sokovan.domain.session import Mount


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


def image_digests(images: Iterable[Image | None]) -> dict[str, str]:
    """The digests that the catalog has of these images, by name.

    Images of processes are made from a list of the machine, and have none.
    """
    found = (image for image in images if image is not None and not is_process_image(image.name))
    return {image.name: image.digest for image in found if image.digest is not None}


def mount_requirements(mounts: Sequence[Mount], image: str) -> dict[str, str]:
    """Agent labels that the mounts of a kernel of this image need.

    A process without a sandbox sees the machine's own file system, so a mount with another
    target needs an agent with a sandbox. Requiring it as a label makes the session wait for
    one, with a reason, instead of failing at the start.
    """
    moved = any(PurePosixPath(mount.source) != PurePosixPath(mount.target) for mount in mounts)
    return {MOUNTS_LABEL: MOUNTS_ANYWHERE} if moved and is_process_image(image) else {}
