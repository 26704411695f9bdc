"""Reports checkpoints from inside a kernel, and reads the notice of its eviction.

It writes and reads files of the kernel, so that it needs neither a network nor a key:

    import sokovan

    for step in range(start, steps):
        train(step)
        if step % 100 == 0 or sokovan.eviction():
            save(step)
            sokovan.checkpoint(step)
        if sokovan.eviction():
            break

SIGTERM follows a notice, and would end the program before its loop looks at it: the first call of
`eviction()` lets the program outlive that signal, unless it handles SIGTERM itself.

Outside of a kernel nothing happens.
"""

from __future__ import annotations

import os

# The variables that name the files in a kernel.
NOTICE = "SOKOVAN_NOTICE"
CHECKPOINT = "SOKOVAN_CHECKPOINT"
_NOTICE_BYTES_MAX = 16384


def checkpoint(step: int | None = None, *, done: bool = False) -> bool:
    """Report that the work so far is saved; False outside of a kernel.

    After an eviction the session goes on from here, so call it when the files are complete.
    `done`: nothing is left to do; the session does not start again if it is evicted from now on,
    and the rest of a grace period is not waited for.
    """
    path = os.environ.get(CHECKPOINT)
    if not path:
        return False
    import json  # noqa: PLC0415  # `import sokovan` is cheap

    fresh = f"{path}.{os.getpid()}.new"
    content = {"done": done} if step is None else {"step": int(step), "done": done}
    with open(fresh, "w", encoding="ascii") as file:  # noqa: PTH123  # pathlib is slow to load
        file.write(json.dumps(content))
    os.replace(fresh, path)  # noqa: PTH105  # pathlib is slow to load
    return True


def eviction() -> dict[str, object] | None:
    """The notice of an eviction, if this kernel has got one.

    It has `reason`, `for` (the session that needs the room) and `evict_at`, seconds since 1970.
    """
    path = os.environ.get(NOTICE)
    if not path:
        return None
    _outlive_notice()
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # pathlib is slow to load
            text = file.read(_NOTICE_BYTES_MAX)
    except OSError:
        return None
    import json  # noqa: PLC0415  # `import sokovan` is cheap

    content = json.loads(text)
    return content if isinstance(content, dict) else None


def _outlive_notice() -> None:
    """Handle SIGTERM, if nothing handles it and this is the main thread."""
    import signal  # noqa: PLC0415  # `import sokovan` is cheap
    import threading  # noqa: PLC0415  # `import sokovan` is cheap

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(number: int, _frame: object) -> None:
    """Leave the end to the program if there is a notice; end as usual if there is none."""
    if os.path.exists(os.environ.get(NOTICE, "")):  # noqa: PTH110  # pathlib is slow to load
        return
    import signal  # noqa: PLC0415  # `import sokovan` is cheap

    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
