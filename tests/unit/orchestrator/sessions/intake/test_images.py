"""Chooses the image of a kernel and its architecture."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.image import Image
from sokovan.orchestrator.sessions.intake.images import choose_image, image_digests

X86, ARM, RISC = (Image("torch", architecture=one) for one in ("x86_64", "aarch64", "riscv64"))


@pytest.mark.parametrize(
    ("known", "requested", "preferred", "chosen"),
    [
        ((X86, ARM), "aarch64", "x86_64", ARM),
        ((X86,), "aarch64", "x86_64", None),
        ((X86, ARM), "", "aarch64", ARM),
        ((X86, ARM), "", "riscv64", X86),
        ((RISC, ARM), "", "s390x", RISC),
        ((), "", "x86_64", None),
    ],
)
def test_an_image_of_the_catalog_is_chosen_by_processor(
    known: tuple[Image, ...], requested: str, preferred: str, chosen: Image | None
) -> None:
    assert choose_image("torch", known, architecture=requested, preferred=preferred) == chosen


def test_the_machine_itself_is_there_for_every_processor() -> None:
    assert choose_image("host", (), architecture="", preferred="aarch64") == Image("host", "aarch64")
    assert choose_image("host", (), architecture="riscv64", preferred="aarch64") == Image("host", "riscv64")


def test_an_entry_of_the_catalog_says_more_of_a_process_image() -> None:
    entry = Image("host", "aarch64")

    assert choose_image("host", (entry,), architecture="", preferred="aarch64") is entry


def test_only_images_of_containers_are_pinned_by_their_digest() -> None:
    digest = "sha256:" + "d" * 64
    pinned, listed = Image("torch", digest=digest), Image("venv:torch", digest=digest)

    assert image_digests([pinned, X86, listed, None]) == {"torch": digest}
    assert image_digests([X86]) == {}
