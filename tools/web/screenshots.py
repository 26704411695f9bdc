"""`make screenshots`: pictures of every page, light and dark, wide and narrow.

With nothing, a little and much to show. `--readme` takes the two of the README instead.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser.dashboard_rig import Dashboard, dashboard_up

OUT = Path("screenshots")
PAGES = {"overview": "", "sessions": "sessions", "new": "new", "cluster": "cluster", "queues": "queues"} | {
    "use": "cluster?by=use",
    "owners": "cluster?by=queue&zoom=1",
    "agents": "cluster?view=table",
    "deployments": "deployments",
    "timeline": "timeline?span=15m",
    "devices": "timeline?view=devices&span=15m",
    "bookings": "bookings",
    "history": "history",
    "audit-log": "history?view=log",
    "what-if": "what-if",
    "serve": "deployments/new",
    "administration": "admin",
    "scaling-groups": "admin?tab=scaling-groups",
    "keys": "admin?tab=keys",
    "quotas": "admin?tab=policies",
}
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
# The pictures of the README: small, since every clone has them.
README = Path("docs/pictures")
README_PAGES = {"cluster": "cluster?by=queue&zoom=1", "queues": "queues"}
README_SIZE = {"width": 1440, "height": 660}


def begin(up: Dashboard) -> None:
    """A few sessions: one that runs, one that has ended, and one that never starts."""
    up.sokovan("run", "--name", "hello", "--", "true")
    up.sokovan("run", "-d", "--name", "first", "--gpus", "8", "--", "sleep", "3600")
    up.sokovan("run", "-d", "--name", "too-big", "--gpus", "64", "--", "sleep", "3600")
    up.sokovan("quota", "set", "small", "gpu=16")
    up.sokovan("user", "set", "ada", "--domain", "default", "--quota", "small")


def load(up: Dashboard) -> str:
    """Fill the cluster; the name of a session that waits."""
    up.sokovan("stop", "first", "too-big", "--yes")
    up.sokovan("queue", "set", "research", "--weight", "3")
    up.sokovan("queue", "set", "teaching", "--weight", "1")
    # Ends before the rest fills the cluster.
    up.sokovan("run", "--name", "quick", "--gpus", "2", "--", "sleep", "1")
    for number in range(12):
        queue = ("research", "teaching")[number % 2]
        words = ["run", "-d", "--name", f"train-{number}", "--queue", queue, "--size", "4", "--gpus", "8"]
        up.sokovan(*words, "--topology", "soft", "--", "sleep", "3600")
    up.sokovan("run", "-d", "--name", "sweep", "--array", "0-199", "--gpus", "1", "--", "sleep", "3600")
    up.sokovan("run", "-d", "--name", "whole", "--size", "64", "--gpus", "8", "--", "sleep", "3600")
    up.sokovan("run", "-d", "--name", "shell", "--where", "sokovan.fake not exists", "--", "sleep", "3600")
    up.sokovan("serve", "toy", "--name", "chatty", "--replicas", "2")
    up.sokovan("chat", "chatty", "hello")
    up.sokovan("agent", "drain", "r01n3")
    up.sokovan("booking", "create", "demo", "--from", "2h", "--for", "4h", "--hypernode", "r00", "--queue", "research")
    up.sokovan("agent", "maintenance", "r07n7", "--from", "24h", "--for", "2h")
    return "whole"


def take(up: Dashboard, name: str, path: str, folder: Path) -> None:
    """Pictures of one page in every size and theme."""
    for size, (width, height) in SIZES.items():
        for theme in ("light", "dark"):
            page: Any = up.context.new_page()
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=theme)
            page.goto(f"{up.url}/ui/{path}")
            page.locator("main h1").first.wait_for()
            page.wait_for_timeout(1_200)
            page.screenshot(path=folder / f"{name}-{size}-{theme}.png")
            page.close()


def take_readme(up: Dashboard) -> None:
    """The pictures of the README."""
    load(up)
    README.mkdir(exist_ok=True)
    for name, path in README_PAGES.items():
        page: Any = up.context.new_page()
        page.set_viewport_size(README_SIZE)
        page.emulate_media(color_scheme="light")
        page.goto(f"{up.url}/ui/{path}")
        page.locator("main h1").first.wait_for()
        page.wait_for_timeout(1_200)
        page.screenshot(path=README / f"{name}.png")
        page.close()


def take_all(up: Dashboard) -> None:
    """All pictures, first of an empty cluster."""
    shutil.rmtree(OUT, ignore_errors=True)
    for state in ("empty", "little", "full"):
        folder = OUT / state
        folder.mkdir(parents=True)
        pages = dict(PAGES)
        if state == "little":
            begin(up)
            pages["session"] = "sessions/too-big"
        if state == "full":
            pages |= {
                "session": f"sessions/{load(up)}",
                "gang": "sessions/train-0",
                "drawer": "cluster?agent=r01n3",
                "booking": "bookings/demo",
                "deployment": "deployments/chatty",
                "terminal": "sessions/shell/terminal",
            }
        for name, path in pages.items():
            take(up, name, path, folder)
    print(f"wrote {len(list(OUT.rglob('*.png')))} pictures to {OUT}/")


def main() -> int:
    """Take the pictures."""
    if shutil.which("chromium") is None:
        print("chromium is not installed: make packages", file=sys.stderr)
        return 1
    with TemporaryDirectory() as home, dashboard_up(Path(home), "--fake", "64x8") as up:
        if "--readme" in sys.argv[1:]:
            begin(up)
            take_readme(up)
        else:
            take_all(up)
    return 0


if __name__ == "__main__":
    sys.exit(main())
