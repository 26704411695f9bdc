"""Set-up that every test shares."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

# Test modules, items and reports live until the end: looking through them again and again for garbage took a third of
# the time of the collection of tests.
gc.set_threshold(100_000, 50, 100)

# The same examples on every machine and every run: a failure in CI is the failure on the laptop. How fast a machine
# draws examples says nothing about the code, so it fails no test.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=80,
    suppress_health_check=[HealthCheck.too_slow],
)
# `make fuzz` looks further, at other examples each time.
settings.register_profile("fuzz", parent=settings.get_profile("repeatable"), derandomize=False, max_examples=3000)
# `make quick` looks at a few.
settings.register_profile("quick", parent=settings.get_profile("repeatable"), max_examples=10)
settings.load_profile(os.environ.get("SOKOVAN_EXAMPLES", "repeatable"))

# A shell starts what runs in the background with SIGINT ignored, and every program that a test starts would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Real servers, started at first use; stores that share what they compiled; workers that share rewritten modules.
pytest_plugins = ["tests.servers", "tests.shared_statements", "tests.quick", "tests.collection"]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every account of the machine may enter; those of pytest are private to one."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()
