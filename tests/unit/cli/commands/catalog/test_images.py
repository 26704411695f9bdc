"""`sokovan image`: what kernels start from."""

from __future__ import annotations

from tests.unit.cli.canned_server import CannedServer, Sokovan


def test_an_image_is_made_known_for_one_architecture(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT images/a/b:1", {"name": "a/b:1"}, status=201)
    words = ("--architecture", "arm64", "--digest", "sha256:0", "--least", "mem=4GiB")
    assert sokovan("image", "set", "a/b:1", *words) == (0, "", "image a/b:1 made\n")
    assert server.lines == ["GET images/a/b:1?architecture=arm64", "PUT images/a/b:1"]
    assert server.body("PUT images/a/b:1") == {
        "name": "a/b:1",
        "architecture": "arm64",
        "digest": "sha256:0",
        "slots_min": {"mem": "4GiB"},
    }


def test_an_image_is_forgotten_for_one_architecture(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE images/a/b:1", None, status=204)
    assert sokovan("image", "rm", "a/b:1", "-y")[0] == 0
    assert server.lines == ["DELETE images/a/b:1?architecture=x86_64"]
