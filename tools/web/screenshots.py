"""`make screenshots`: pictures of every page, light and dark, wide and narrow, with nothing and with much to show."""

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
    "history": "history",
    "what-if": "what-if",
    "serve": "deployments/new",
    "administration": "admin",
    "scaling-groups": "admin?tab=scaling-groups",
    "keys": "admin?tab=keys",
}
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}


def load(up: Dashboard) -> str:
    """Fill the cluster; the name of a session that waits."""
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
    up.sokovan("serve", "toy", "--name", "chatty", "--replicas", "2", "--detach")
    up.sokovan("agent", "drain", "r01n3")
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


def main() -> int:
    """Take all pictures."""
    if shutil.which("chromium") is None:
        print("chromium is not installed: make packages", file=sys.stderr)
        return 1
    shutil.rmtree(OUT, ignore_errors=True)
    with TemporaryDirectory() as home, dashboard_up(Path(home), "--fake", "64x8") as up:
        for state in ("empty", "full"):
            folder = OUT / state
            folder.mkdir(parents=True)
            if state == "full":
                waits = load(up)
                more = {
                    "session": f"sessions/{waits}",
                    "drawer": "cluster?agent=r01n3",
                    "deployment": "deployments/chatty",
                    "terminal": "sessions/shell/terminal",
                }
                for name, path in more.items():
                    take(up, name, path, folder)
            for name, path in PAGES.items():
                take(up, name, path, folder)
    print(f"wrote {len(list(OUT.rglob('*.png')))} pictures to {OUT}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
