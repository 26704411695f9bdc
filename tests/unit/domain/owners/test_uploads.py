"""Manifests of uploads: paths stay below their folder, files do not exclude each other."""

from __future__ import annotations

import pytest

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.uploads import (
    UploadFile,
    UploadLimits,
    UploadManifest,
    UploadRefused,
    is_upload_path,
    owner_key,
    upload_reference,
)

DIGEST = "0" * 64


@pytest.mark.parametrize("path", ["a", "a/b.py", "ä/ö", ".hidden", "a b", "...", "a/..b"])
def test_paths_below_the_folder_are_accepted(path: str) -> None:
    assert is_upload_path(path)


@pytest.mark.parametrize(
    "path", ["", "/a", "..", "a/..", "../a", "a//b", "a/", "./a", "a\0", "a\nb", "x" * 1025, "/".join("a" * 65), 7]
)
def test_other_paths_are_refused(path: object) -> None:
    assert not is_upload_path(path)


@pytest.mark.parametrize(("digest", "size"), [("0" * 63, 0), ("G" * 64, 0), (DIGEST, -1), (DIGEST, True)])
def test_a_file_has_a_digest_and_a_size(digest: str, size: int) -> None:
    with pytest.raises(InvalidSpec):
        UploadFile("a", digest, size)


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a/b", "a/b/c")])
def test_files_do_not_exclude_each_other(paths: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSpec):
        UploadManifest(tuple(UploadFile(path, DIGEST, 0) for path in paths))


def test_an_upload_stays_within_its_limits() -> None:
    manifest = UploadManifest((UploadFile("a", DIGEST, 4), UploadFile("b", DIGEST, 4)))
    manifest.require_within(UploadLimits(files_max=2, bytes_max=8))
    for limits in (UploadLimits(files_max=1), UploadLimits(bytes_max=7)):
        with pytest.raises(UploadRefused):
            manifest.require_within(limits)


def test_owners_have_namespaces_of_their_own() -> None:
    assert owner_key("kim") != owner_key("lee")
    assert upload_reference("kim", DIGEST) == f"{owner_key('kim')}/{DIGEST}"
