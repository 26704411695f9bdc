"""Virtual environments as images, with the real installer."""

from __future__ import annotations

import asyncio
import zipfile
from pathlib import Path

import pytest

from sokovan.ports.runtime import ImageUnavailable
from tests.kernels import ended, launch, output, runtime_in
from tests.linked_venv import LINKED_CREATOR


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package that needs no index to be installed."""
    path = tmp_path / "greeting-1.0-py3-none-any.whl"
    about = "greeting-1.0.dist-info"
    files = {
        "greeting.py": "def main():\n    print('hello from', __name__)\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\ngreet = greeting:main\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


async def test_an_image_is_installed_once_and_its_programs_come_first(tmp_path: Path, wheel: Path) -> None:
    lines: list[str] = []
    async with runtime_in(tmp_path / "root", requirements={"greeting": (str(wheel),)}) as runtime:
        assert not await runtime.has_image("venv:greeting")
        await asyncio.gather(*(runtime.prepare_image("venv:greeting", lines.append) for _ in range(3)))
        assert lines.count("creating a virtual environment") == 1
        assert "ready" in lines
        assert await runtime.has_image("venv:greeting")
        await runtime.create(launch("script", "greet", "--now", image="venv:greeting"))
        await runtime.create(launch("module", "import greeting; greeting.main()", image="venv:greeting"))
        for name in ("script", "module"):
            await ended(runtime, name)
            assert await output(runtime, name) == b"hello from greeting\n"


async def test_a_failed_installation_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.adapters.process.images.CREATOR", LINKED_CREATOR)
    async with runtime_in(tmp_path / "root") as runtime:
        (tmp_path / "root" / "images" / "broken.txt").write_text("nothing @ file:///there/is/nothing.whl\n")
        lines: list[str] = []
        with pytest.raises(ImageUnavailable, match="installation failed"):
            await runtime.prepare_image("venv:broken", lines.append)
        assert any("nothing.whl" in line for line in lines)
        assert not await runtime.has_image("venv:broken")
        assert [path.name for path in (tmp_path / "root" / "venvs").iterdir() if not path.name.startswith(".")] == []
