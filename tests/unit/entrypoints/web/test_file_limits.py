"""The limit of open files."""

from __future__ import annotations

import resource

import pytest

from sokovan.entrypoints.web.file_limits import OPEN_FILES_MAX, raise_open_files


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((256, 4096), 4096),
        ((4096, 4096), 4096),
        ((256, resource.RLIM_INFINITY), OPEN_FILES_MAX),
        ((1024, 1 << 20), OPEN_FILES_MAX),
        ((1 << 18, 1 << 20), 1 << 18),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), OPEN_FILES_MAX),
    ],
)
def test_the_soft_limit_is_raised_to_what_is_allowed_and_of_use(
    before: tuple[int, int], after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [before]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.append(wanted))
    assert raise_open_files() == after
    assert limits[-1][0] in {after, resource.RLIM_INFINITY}
    assert limits[-1][1] == before[1]
