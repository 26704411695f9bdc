"""Images of an engine: their names, their presence, and their pull."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sokovan.adapters.docker.engine.images import EngineImages, checked_reference
from sokovan.ports.runtime import ImageUnavailable
from tests.unit.adapters.docker.canned_engine import canned_engine

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def test_a_name_has_registry_tag_and_digest() -> None:
    parts = checked_reference(f"registry.lab:5000/team/train:v1@{DIGEST}")
    assert parts == {"name": "registry.lab:5000/team/train", "tag": "v1", "digest": DIGEST}


@pytest.mark.parametrize("image", ["host", "venv:train", "no-such-kind/../of:image", "a b", "UPPER", ""])
def test_what_is_no_image_of_containers_is_refused(image: str) -> None:
    with pytest.raises(ImageUnavailable):
        checked_reference(image)


async def test_an_image_is_known_by_its_digest(tmp_path: Path) -> None:
    about = {"Id": "sha256:1", "RepoDigests": [f"train@{DIGEST}"]}
    async with canned_engine({"GET /images/train/json": (200, about)}) as engine:
        images = EngineImages(engine.client, tmp_path)
        assert await images.identity("train") == DIGEST
        assert await images.is_ready("train")
        assert not await images.is_ready("other")


async def test_the_installed_images_are_named_by_their_tags(tmp_path: Path) -> None:
    listed = [{"RepoTags": ["a:latest", "b/c:1"]}, {"RepoTags": ["<none>:<none>"]}, {"RepoTags": None}]
    async with canned_engine({"GET /images/json": (200, listed)}) as engine:
        assert await EngineImages(engine.client, tmp_path).installed() == ("a", "a:latest", "b/c:1")


async def test_images_of_podman_have_their_short_names_too(tmp_path: Path) -> None:
    listed = [{"RepoTags": ["docker.io/library/python:3.12", "docker.io/lab/a:1"]}]
    async with canned_engine({"GET /images/json": (200, listed)}) as engine:
        assert {"python:3.12", "lab/a:1"} < set(await EngineImages(engine.client, tmp_path).installed())


async def test_a_pull_reports_each_step_once_and_the_problem(tmp_path: Path) -> None:
    steps = [{"id": "1", "status": "Downloading"}, {"id": "1", "status": "Downloading"}, {"status": "Verifying"}]
    content = b"".join(json.dumps(step).encode() + b"\n" for step in [*steps, {"error": "no space left"}])
    lines: list[str] = []
    async with canned_engine({"POST /images/create": (200, content)}) as engine:
        with pytest.raises(ImageUnavailable, match="no space left"):
            await EngineImages(engine.client, tmp_path).pull("lab/train", lines.append)
        assert "POST /images/create?fromImage=lab%2Ftrain&tag=latest" in engine.asked
    assert lines == ["pulling lab/train", "1: Downloading", "Verifying"]


async def test_a_pinned_image_is_asked_for_by_its_digest_alone(tmp_path: Path) -> None:
    about = {"Id": "sha256:1", "RepoDigests": [f"lab/train@{DIGEST}"]}
    async with canned_engine({f"GET /images/lab/train@{DIGEST}/json": (200, about)}) as engine:
        images = EngineImages(engine.client, tmp_path)
        assert await images.found(f"lab/train:v1@{DIGEST}") == about
        assert not await images.is_ready(f"lab/train:v1@{OTHER}"), "the tag alone is not enough"


async def test_a_pinned_image_that_was_built_here_is_known_by_its_id(tmp_path: Path) -> None:
    async with canned_engine({"GET /images/lab/train:v1/json": (200, {"Id": DIGEST})}) as engine:
        images = EngineImages(engine.client, tmp_path)
        assert await images.is_ready(f"lab/train:v1@{DIGEST}")
        assert not await images.is_ready(f"lab/train:v1@{OTHER}")


@pytest.mark.parametrize("reply", [(200, b'{"error": "manifest unknown"}\n'), (404, {"message": "manifest unknown"})])
async def test_another_image_of_the_name_is_named_when_the_pinned_one_cannot_be_pulled(
    tmp_path: Path, reply: tuple[int, object]
) -> None:
    answers = {"GET /images/lab/train:v1/json": (200, {"Id": DIGEST}), "POST /images/create": reply}
    async with canned_engine(answers) as engine:
        with pytest.raises(ImageUnavailable) as refused:
            await EngineImages(engine.client, tmp_path).pull(f"lab/train:v1@{OTHER}", lambda _line: None)
        assert f"POST /images/create?fromImage=lab%2Ftrain&tag=sha256%3A{'b' * 64}" in engine.asked
    for words in (f"the catalog expects {OTHER} of lab/train:v1", f"the engine has {DIGEST}", "manifest unknown"):
        assert words in refused.value.problem
