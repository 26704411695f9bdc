"""Contract of `ports.kernel_files.KernelFiles`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sokovan.domain.ids import KernelId
from sokovan.ports.kernel_files import FileListing, FileMissing, FileRefused, KernelFiles, KernelPath
from sokovan.testing.contracts import expect


@dataclass(frozen=True, slots=True)
class KernelFilesSubject:
    """A kernel `k1`, attempt 1, that runs in `work` and has an `output`.

    `outside` is a folder that is none of its own; `upload` makes an upload of these files
    and returns its reference.
    """

    files: KernelFiles
    work: Path
    output: Path
    outside: Path
    upload: Callable[[Mapping[str, bytes]], str]

    async def paths(self, path: str, *, files_max: int = 100) -> list[str]:
        """The paths below a path."""
        return [one.path for one in (await self.listing(path, files_max=files_max)).files]

    async def listing(self, path: str, *, files_max: int = 100, after: str = "") -> FileListing:
        """The first page of a path."""
        return await self.files.list(at(path), after=after, files_max=files_max)

    async def content(self, path: str) -> bytes:
        """The content of a small file."""
        return (await self.files.read(at(path), offset=0, limit=1000, mark="")).data


def at(path: str) -> KernelPath:
    """A path of the kernel."""
    return KernelPath(KernelId("k1"), 1, path)


async def _refused(work: Awaitable[object], what: str) -> None:
    try:
        await work
    except (FileRefused, FileMissing):
        return
    raise AssertionError(what)


async def files_are_listed_by_path_and_read_in_parts(subject: KernelFilesSubject) -> None:
    """Relative paths are those of the working directory."""
    (subject.work / "b").mkdir()
    (subject.work / "b" / "x").write_bytes(b"abcdef")
    (subject.work / "a").write_bytes(b"")
    expect(await subject.paths(".") == ["a", "b/x"], "the files are not in the order of their paths")
    expect(await subject.paths("b/x") == [""], "a file does not list itself")
    part = await subject.files.read(at("b/x"), offset=2, limit=3, mark="")
    expect((part.data, part.size) == (b"cde", 6), "another part was read")
    rest = await subject.files.read(at("b/x"), offset=5, limit=3, mark=part.mark)
    expect(rest.data == b"f", "the end of a file is not its last byte")


async def a_file_that_was_replaced_is_not_read_on(subject: KernelFilesSubject) -> None:
    """The parts of a copy are those of one file."""
    (subject.work / "x").write_bytes(b"old")
    first = await subject.files.read(at("x"), offset=0, limit=1, mark="")
    (subject.work / "y").write_bytes(b"new")
    (subject.work / "y").replace(subject.work / "x")
    await _refused(subject.files.read(at("x"), offset=1, limit=1, mark=first.mark), "two files were read as one")


async def output_has_a_name_of_its_own(subject: KernelFilesSubject) -> None:
    """A folder of that name in the working directory is another one."""
    (subject.output / "kept").write_bytes(b"1")
    (subject.work / "output").mkdir()
    (subject.work / "output" / "other").write_bytes(b"2")
    expect(await subject.paths("output") == ["kept"], "the output is not listed")
    expect(await subject.paths("./output") == ["other"], "the folder of that name is not listed")
    expect((await subject.listing("output")).output is not None, "the state of the output is missing")


async def nothing_outside_is_read(subject: KernelFilesSubject) -> None:
    """By no path and through no link."""
    (subject.outside / "secret").write_bytes(b"s")
    (subject.work / "absolute").symlink_to(subject.outside / "secret")
    up = "../" * len(subject.work.parts)
    (subject.work / "relative").symlink_to(f"{up}{subject.outside}")
    (subject.work / "loop").symlink_to("loop")
    for path in (
        f"{up}{subject.outside}/secret",
        str(subject.outside / "secret"),
        "absolute",
        "relative/secret",
        "loop",
        "a\nb",
        "a\0b",
    ):
        await _refused(subject.content(path), f"{path!r} was read")
        await _refused(subject.listing(path), f"{path!r} was listed")
    expect(await subject.paths(".") == [], "links are listed as files")
    expect((await subject.listing(".")).left_out == 3, "links are not counted")


async def a_link_that_stays_inside_is_followed(subject: KernelFilesSubject) -> None:
    """As `latest -> run-3` is made to be."""
    (subject.work / "run-3").mkdir()
    (subject.work / "run-3" / "x").write_bytes(b"1")
    (subject.work / "latest").symlink_to("run-3")
    expect(await subject.content("latest/x") == b"1", "a link inside was not followed")


async def only_regular_files_are_read(subject: KernelFilesSubject) -> None:
    """A pipe would block the reader."""
    os.mkfifo(subject.work / "pipe")
    (subject.work / "two\nlines").write_bytes(b"")
    await _refused(subject.content("pipe"), "a pipe was read")
    await _refused(subject.content("."), "a folder was read")
    listing = await subject.listing(".")
    expect((listing.files, listing.left_out) == ((), 2), "a pipe or an unprintable name is listed")


async def the_number_of_files_is_limited(subject: KernelFilesSubject) -> None:
    """Before more than that are held in memory."""
    for number in range(4):
        (subject.work / str(number)).touch()
    expect(len(await subject.paths(".", files_max=4)) == 4, "as many files as allowed are refused")
    await _refused(subject.listing(".", files_max=3), "too many files were listed")
    expect([one.path for one in (await subject.listing(".", after="1")).files] == ["2", "3"], "another page was listed")


async def an_upload_is_copied_into_a_folder_or_to_a_name(subject: KernelFilesSubject) -> None:
    """Like cp; missing folders are created."""
    tree = subject.upload({"src/a": b"1", "src/deep/b": b"2"})
    one = subject.upload({"file": b"3"})
    (subject.work / "there").mkdir()
    for upload, path in (
        (tree, ""),
        (tree, "new/name"),
        (one, "there"),
        (one, "x/y"),
        (one, "fresh/"),
        (one, "there/file"),
    ):
        placed = await subject.files.put(at(path), upload)
        expect(placed.done, "a small copy is not done at once")
    expect(
        await subject.paths(".")
        == ["fresh/file", "new/name/a", "new/name/deep/b", "src/a", "src/deep/b", "there/file", "x/y"],
        "the files are elsewhere",
    )
    expect(await subject.content("there/file") == b"3", "the content is another one")


async def nothing_outside_is_written(subject: KernelFilesSubject) -> None:
    """By no path and through no link; a link is replaced, not followed."""
    upload = subject.upload({"x": b"1"})
    (subject.work / "out").symlink_to(subject.outside)
    (subject.work / "x").symlink_to(subject.outside / "x")
    for path in ("../x", str(subject.outside), "out/x", "out/"):
        await _refused(subject.files.put(at(path), upload), f"{path!r} was written to")
    expect(not list(subject.outside.iterdir()), "something outside was written")


CHECKS = (
    files_are_listed_by_path_and_read_in_parts,
    a_file_that_was_replaced_is_not_read_on,
    output_has_a_name_of_its_own,
    nothing_outside_is_read,
    a_link_that_stays_inside_is_followed,
    only_regular_files_are_read,
    the_number_of_files_is_limited,
    an_upload_is_copied_into_a_folder_or_to_a_name,
    nothing_outside_is_written,
)
