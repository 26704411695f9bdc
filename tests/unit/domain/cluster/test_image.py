"""Images by reference."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.image import Image
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
