"""The folders of agents that sessions may use are beneath roots, and never of the system."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.mount_roots import (
    OWN_FOLDERS,
    ROOTS_MAX,
    closed_folder,
    folder_problem,
    is_beneath,
    require_mount_roots,
    roots_of,
)
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.tenancy import Owner

CLOSED = (
    *("/", "/etc", "/etc/ssl", "/run", "/var", "/var/run", "/var/run/docker.sock", "/var/lock/x", "/var/log"),
    *("/usr/share", "/proc/1", "/sys", "/dev/x", "/boot", "/root/.ssh", "/root/.config/sokovan", "/home/ada/.aws/x"),
    *("//etc", "//root/.ssh"),
)
OPEN = (
    *("/data", "/home/ada", "/home/ada/sets/.hidden", "/root", "/root/x", "/var/lib/jobs", "/srv/.a"),
    *("/var/tmp/x", "/tmp/x"),  # noqa: S108  # paths of the test
)


@pytest.mark.parametrize("path", CLOSED)
def test_the_system_and_the_keys_of_users_are_closed_to_all_sessions(path: str) -> None:
    assert closed_folder(path)
    assert "cannot be used" in folder_problem(path, OWN_FOLDERS, where="x")
    with pytest.raises(InvalidSpec, match="mount_roots"):
        require_mount_roots((path,), what="scaling group default")


@pytest.mark.parametrize("path", OPEN)
def test_other_folders_are_open_where_a_root_allows_them(path: str) -> None:
    require_mount_roots((path,), what="scaling group default")
    assert folder_problem(path, (path,), where="x") == ""
    assert folder_problem(path, OWN_FOLDERS, where="x") == ""
    assert folder_problem(path, (), where="x") == f"{path} may not be used; folders that x allows: none"


def test_a_folder_is_beneath_a_root_by_whole_parts() -> None:
    assert is_beneath("/data", ["/data"])
    assert is_beneath("/data/a/b/", ["/other", "/data/"])
    assert not is_beneath("/database", ["/data"])
    assert not is_beneath("/", ["/data"])


def test_names_of_the_owner_stand_for_one_folder_only() -> None:
    ada = Owner(user="ada", group="nlp")
    assert roots_of(("/home/{user}", "/work/{group}/{user}", "/sets"), ada) == ("/home/ada", "/work/nlp/ada", "/sets")
    assert roots_of(("/home/{user}", "/sets"), Owner(user="ada/sets")) == ("/sets",)
    assert roots_of(("/home/{user}",), Owner(user="x", group="a/b")) == ("/home/x",)


@pytest.mark.parametrize("roots", [("data",), ("/a/../b",), ("/a\nb",), ("/data",) * (ROOTS_MAX + 1), (7,), "/data"])
def test_roots_are_plain_paths_and_not_many(roots: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSpec):
        require_mount_roots(roots, what="scaling group default")
