"""Listings of files for clients, and refusals of agents as errors."""

from __future__ import annotations

import pytest

from sokovan.api.mapping.files import file_answer, file_page
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.kernel_files import FileInfo, FileListing, FileMissing, FileRefused, OutputState
from sokovan.ports.runtime import RuntimeFailure


def test_files_have_the_path_to_copy_them_by() -> None:
    listing = FileListing(
        is_folder=True,
        files=(FileInfo("a/b", 3, 1_700_000_000_123),),
        more=True,
        output=OutputState(10, 5, 20, kept_until_ms=1_700_000_001_123),
    )
    page = file_page(listing, 2, "output/", bytes_max=9)
    [one] = page.items
    assert (one.kernel, one.path, one.modified_at) == (2, "output/a/b", "2023-11-14T22:13:20.123Z")
    assert one.kept_until == "2023-11-14T22:13:21.123Z"
    assert (page.next, page.bytes_max) == ("a/b", 9)
    assert page.output is not None
    assert (page.output.owner_bytes, page.output.owner_bytes_max) == (5, 20)


def test_the_working_directory_and_a_single_file_need_no_prefix() -> None:
    alone = FileListing(is_folder=False, files=(FileInfo("", 3, 0),))
    assert file_page(alone, 0, "x/y", bytes_max=9).items[0].path == "x/y"
    whole = FileListing(is_folder=True, files=(FileInfo("a", 3, 0),))
    assert file_page(whole, 0, "", bytes_max=9).items[0].path == "a"


@pytest.mark.parametrize(
    ("reason", "kind"), [("file-refused", FileRefused), ("file-not-found", FileMissing), ("other", RuntimeFailure)]
)
async def test_a_refusal_is_the_error_that_the_agent_had(reason: str, kind: type[RuntimeFailure]) -> None:
    async def refuse() -> None:
        raise AgentRefused(agent_id="a1", problem=f"no [{reason}]", reason=reason)

    with pytest.raises(RuntimeFailure) as caught:
        await file_answer(refuse())
    assert type(caught.value) is kind
    assert caught.value.message == "no"
