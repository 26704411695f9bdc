"""Processes of a proxy: started again when they end, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

PROGRAM = """
import os, signal, sys
from sokovan.entrypoints.proxies import proxy_workers
proxy_workers.PAUSE_FIRST_S = 0.01
once = sys.argv[1]
def tell(line):
    # One write: the lines of several processes do not mix.
    os.write(1, f"{line}\\n".encode())
def work(worker):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if worker == 0 and not os.path.exists(once):
        open(once, "w").close()
        return 7
    tell(f"working {worker}")
    signal.sigwait({signal.SIGTERM})
    return 0
sys.exit(proxy_workers.run_workers(2, work, log=tell))
"""


def test_a_process_that_ends_is_started_again_and_all_stop_together(tmp_path: object) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, f"{tmp_path}/once"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = sorted(process.stdout.readline().strip() for _ in range(3))
    os.kill(process.pid, signal.SIGTERM)

    assert lines == ["process 0 of the proxy ended with 7; it starts again", "working 0", "working 1"]
    assert process.wait(60) == 0
    process.stdout.close()
