"""Images by reference."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.image import Image, image_runtime, is_process_image
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.slots import NO_SLOTS

DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_an_image_is_a_name_for_one_architecture() -> None:
    image = Image("registry.example.com/ml/torch:2.9")
    assert (image.architecture, image.digest, image.slots_min) == ("x86_64", None, NO_SLOTS)
    assert image != Image("registry.example.com/ml/torch:2.9", architecture="aarch64")


def test_a_digest_pins_an_image() -> None:
    assert Image("torch", digest=DIGEST).digest == DIGEST


@pytest.mark.parametrize(
    "digest", ["", DIGEST[:-1], DIGEST + "0", DIGEST.upper(), DIGEST[7:], DIGEST + "\n", "md5:" + DIGEST]
)
def test_what_looks_like_a_digest_and_is_none_is_refused(digest: str) -> None:
    with pytest.raises(InvalidSpec, match=r"image torch: digest = .*64 hexadecimal digits"):
        Image("torch", digest=digest)


@pytest.mark.parametrize("name", ["host", "venv:a", "venv:torch-2.9_cpu"])
def test_processes_run_on_the_machine_or_in_a_virtual_environment(name: str) -> None:
    assert is_process_image(name)


@pytest.mark.parametrize("name", ["", "hosts", "Host", "venv", "venv:", "venv:a/b", "venv:.x", "venv:a b", "venv:a\n"])
def test_nothing_else_is_known_without_the_catalog(name: str) -> None:
    assert not is_process_image(name)


def test_an_image_of_the_catalog_needs_containers_and_no_image_needs_nothing() -> None:
    found = [image_runtime(name) for name in ("host", "venv:torch", "python:3.12", "")]
    assert found == ["process", "process", "docker", ""]
