"""The image of the tests has this interpreter; the engine itself is used by the contract suites."""

import io
import tarfile

import pytest

from sokovan.testing.servers import DockerServer
from sokovan.testing.servers.docker import PYTHON_IMAGE, python_archive


@pytest.mark.slow
def test_the_image_has_a_python_that_everybody_may_run() -> None:
    with tarfile.open(fileobj=io.BytesIO(python_archive())) as archive:
        link = archive.getmember("usr/bin/python")
        program = archive.getmember(link.linkname.lstrip("/"))
        assert program.mode & 0o555 == 0o555
        assert any(name.endswith("/os.py") for name in archive.getnames())
        assert not any("/site-packages" in name for name in archive.getnames())


@pytest.mark.server
def test_an_engine_has_the_image_and_no_containers(docker_server: DockerServer) -> None:
    assert docker_server.answers()
    assert docker_server.add_python_image() == PYTHON_IMAGE
    assert docker_server.containers() == []
