"""The sync client is generated from the async one, without drift."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.sync_sdk import ROOT, SOURCE, TARGET, derive, drifted, generated


def test_no_module_of_the_sync_client_has_drifted_from_the_async_one() -> None:
    assert drifted(ROOT) == [], "run `make docs`"


def test_every_module_of_the_sync_client_is_generated() -> None:
    modules = {f"{TARGET}/{path.name}" for path in (ROOT / TARGET).glob("*.py") if path.stem != "__init__"}
    assert modules == set(generated())
    assert all(path.replace(TARGET, "sdk/aio") in text.splitlines()[0] for path, text in generated().items())


def test_an_edited_or_missing_module_counts_as_drifted(tmp_path: Path) -> None:
    for path, text in generated().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    edited, missing = f"{TARGET}/client.py", f"{TARGET}/sessions.py"
    (tmp_path / edited).write_text("edited = True\n", encoding="utf-8")
    (tmp_path / missing).unlink()

    assert drifted(tmp_path) == [edited, missing]


@pytest.mark.parametrize(
    ("source", "derived"),
    [
        ("async def get(self) -> AsyncIterator[int]: ...", "def get(self) -> Iterator[int]: ..."),
        ("async def __aenter__(self) -> T: ...", "def __enter__(self) -> T: ..."),
        ("x = await (await f()).aclose()", "x = (f()).close()"),
        ("return self.view  # sync: return self.refresh()", "return self.refresh()"),
        ("# sync: @property\nasync def f() -> int: ...", "@property\ndef f() -> int: ..."),
        ('"""For the async client, AsyncClient."""', '"""For the sync client, Client."""'),
        ("def follow() -> AsyncGenerator[T, None]: ...", "def follow() -> Generator[T, None, None]: ..."),
    ],
)
def test_a_line_of_the_async_client_is_rewritten(source: str, derived: str) -> None:
    assert derive(source, name="module.py").strip() == derived


def test_loops_that_only_yield_and_nested_contexts_are_collapsed() -> None:
    source = """\
async def f():
    with a:
        async with b as items:
            async for item in items:
                yield item
"""
    assert derive(source, name="module.py") == "def f():\n    with a, b as items:\n        yield from items\n"


def test_nothing_asynchronous_is_left() -> None:
    assert SOURCE.endswith("aio")
    assert not [path for path, text in generated().items() if "await" in text or "sdk.aio" in text]
