"""`sokovan cp` and `session files`: files into and out of sessions, and kept output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.embedded import Embedded, sokovan_in, until

LITTLE = ("--cpus", "0.2", "--mem", "64MiB")
# A session that makes files of every kind, and then waits.
MAKER = """
mkdir -p data/deep "$SOKOVAN_OUTPUT/model"
printf weights > data/deep/w.bin; printf x > data/x; chmod +x data/x
ln -s deep data/latest; ln -s /etc/passwd out; ln -s ../../.. up; ln -s data/x near; mkfifo pipe
touch "data/two
lines"
echo kept > "$SOKOVAN_OUTPUT/model/result.txt"
echo made; exec sleep 600
"""


@pytest.fixture(scope="module")
def maker(server: Embedded) -> Iterator[str]:
    """A running session with files of every kind."""
    done = server.cli("run", *LITTLE, "-d", "-n", "maker", "--workdir", "none", "--", "sh", "-c", MAKER)
    assert done.returncode == 0, done.stderr
    server.says("maker", "made")
    yield "maker"
    server.end("maker", forced=True)


def test_files_and_folders_are_copied_out_of_a_running_session(server: Embedded, maker: str, tmp_path: Path) -> None:
    one = sokovan_in(tmp_path, server, "cp", f"{maker}:data/deep/w.bin", "w.bin")
    assert one.returncode == 0, one.stderr
    assert (tmp_path / "w.bin").read_text() == "weights"
    whole = sokovan_in(tmp_path, server, "cp", f"{maker}:data", ".")
    assert whole.returncode == 0, whole.stderr
    assert sorted(path.name for path in (tmp_path / "data").rglob("*")) == ["deep", "w.bin", "x"]
    assert os.access(tmp_path / "data" / "x", os.X_OK)
    assert "2 were left out" in whole.stderr, whole.stderr
    inside = sokovan_in(tmp_path, server, "cp", f"{maker}:data/latest/w.bin", "again.bin")
    assert inside.returncode == 0, inside.stderr


def test_what_is_outside_or_no_file_is_refused(server: Embedded, maker: str, tmp_path: Path) -> None:
    for path, message in (
        ("../x", ".."),
        ("data/../../x", ".."),
        ("/etc/passwd", "outside the folders"),
        ("out", "link"),
        ("up/x", "link"),
        ("pipe", "neither a regular file nor a folder"),
        ("data/x/y", "does not exist"),
    ):
        done = sokovan_in(tmp_path, server, "cp", f"{maker}:{path}", "got")
        assert done.returncode in {3, 5}, path
        assert message in done.stderr
        assert "hint:" in done.stderr
        assert not list(tmp_path.iterdir())


def test_files_and_folders_are_copied_into_a_running_session(server: Embedded, maker: str, tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("alpha")
    (folder / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "run.sh").chmod(0o755)
    done = sokovan_in(tmp_path, server, "cp", "conf", f"{maker}:")
    assert done.returncode == 0, done.stderr
    ran = server.cli("exec", maker, "--", "sh", "-c", "cat conf/sub/a.txt; ./conf/run.sh")
    assert ran.stdout == "alpharan\n", ran.stderr
    (tmp_path / "b.txt").write_text("beta")
    for target in ("new/name.txt", "data/", "data/deep/w.bin"):
        put = sokovan_in(tmp_path, server, "cp", "b.txt", f"{maker}:{target}")
        assert put.returncode == 0, put.stderr
    read = server.cli("exec", maker, "--", "cat", "new/name.txt", "data/b.txt", "data/deep/w.bin")
    assert read.stdout == "beta" * 3


def test_nothing_is_written_outside(server: Embedded, maker: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    for path, message in (
        ("../x", ".."),
        ("/etc/x", "outside the folders"),
        ("up/x", "link"),
        ("data/x/y", "data/x"),
    ):
        done = sokovan_in(tmp_path, server, "cp", "a", f"{maker}:{path}")
        assert done.returncode == 5, path
        assert message in done.stderr
        assert "hint:" in done.stderr


def test_links_out_of_a_local_folder_are_refused_and_nothing_is_sent(
    server: Embedded, maker: str, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (tmp_path / "outside").write_text("private")
    for target in ("/etc/passwd", "../outside"):
        (folder / "link").unlink(missing_ok=True)
        (folder / "link").symlink_to(target)
        done = sokovan_in(tmp_path, server, "cp", "mine", f"{maker}:")
        assert done.returncode == 2
        assert "link is a link" in done.stderr
    assert server.cli("exec", maker, "--", "test", "-e", "mine").returncode == 1


def test_output_is_listed_and_fetched_after_the_end(server: Embedded, tmp_path: Path) -> None:
    script = 'mkdir "$SOKOVAN_OUTPUT/ckpt"; echo loss > "$SOKOVAN_OUTPUT/ckpt/log"; echo lost > other'
    done = server.cli("run", *LITTLE, "-n", "trained", "--workdir", "none", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    server.settles("trained")
    listed = server.cli("session", "files", "trained")
    assert "output/ckpt/log" in listed.stdout
    assert "kept until" in listed.stderr
    [found] = server.cli_json("session", "files", "trained")
    assert (found["path"], found["size"], found["kernel"]) == ("output/ckpt/log", 5, 0)
    got = sokovan_in(tmp_path, server, "cp", "trained:output", "results")
    assert got.returncode == 0, got.stderr
    assert (tmp_path / "results" / "ckpt" / "log").read_text() == "loss\n"
    ended = sokovan_in(tmp_path, server, "cp", "trained:other", ".")
    assert ended.returncode == 5
    assert "only its output is kept" in ended.stderr
    into = sokovan_in(tmp_path, server, "cp", "results", "trained:output")
    assert into.returncode == 5
    assert "trained" in into.stderr


def test_each_kernel_of_a_gang_has_its_own_output(server: Embedded, tmp_path: Path) -> None:
    script = 'echo $SOKOVAN_RANK > "$SOKOVAN_OUTPUT/rank"'
    done = server.cli("run", *LITTLE, "-n", "gang", "--size", "2", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    server.settles("gang")
    found = server.cli_json("session", "files", "gang")
    assert [(one["kernel"], one["path"]) for one in found] == [(0, "output/rank"), (1, "output/rank")]
    for kernel in (0, 1):
        got = sokovan_in(tmp_path, server, "cp", "--kernel", str(kernel), "gang:output/rank", f"rank{kernel}")
        assert got.returncode == 0, got.stderr
        assert (tmp_path / f"rank{kernel}").read_text() == f"{kernel}\n"


def test_another_user_cannot_read_or_write_files(server: Embedded, maker: str, tmp_path: Path) -> None:
    assert server.cli("user", "set", "stranger", "--group", "default").returncode == 0
    key = server.cli_json("key", "add", "stranger")["token"]
    theirs = {"SOKOVAN_URL": str(server.about["url"]), "SOKOVAN_TOKEN": key}
    (tmp_path / "a").write_text("a")
    for words in (
        ("cp", f"{maker}:data/x", "got"),
        ("cp", "a", f"{maker}:a"),
        ("session", "files", maker),
    ):
        done = sokovan_in(tmp_path, server, *words, **theirs)
        assert done.returncode == 3, done.stderr
    assert not (tmp_path / "got").exists()


def test_the_output_folder_of_a_kernel_is_not_taken_for_an_output_format(server: Embedded) -> None:
    done = server.cli("session", "ls", SOKOVAN_OUTPUT="/somewhere/files")
    assert done.returncode == 0, done.stderr
    formatted = server.cli("session", "ls", SOKOVAN_FORMAT="json")
    assert formatted.stdout.startswith("[")


def test_a_large_file_arrives_whole_in_both_directions(server: Embedded, maker: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * (3 << 12)
    (tmp_path / "big").write_bytes(content)
    assert sokovan_in(tmp_path, server, "cp", "big", f"{maker}:big").returncode == 0
    back = sokovan_in(tmp_path, server, "cp", f"{maker}:big", "back")
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "back").read_bytes() == content
    until(lambda: not list(tmp_path.glob(".sokovan*")), what="no part is left")
