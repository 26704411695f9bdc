"""`python -m tools.web`: build the dashboard.

`--watch` builds it again after each change; `--test` runs the tests of its pure modules.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.web.bundle import STATIC, bundle, check_types, install_packages, write_files
from tools.web.node import BuildFailed, require_node, run
from tools.web.watch import watch

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Build, watch, or test."""
    web = ROOT / "web"
    if "--watch" in arguments:
        print("watching web/; Ctrl-C ends it, and a server that runs serves what is built", flush=True)
        try:
            watch(web, lambda: build(web))
        except KeyboardInterrupt:
            return 0
    try:
        if "--test" in arguments:
            node = require_node(ROOT)
            install_packages(node, web)
            print(run([node, "--test", "tests/*.test.ts"], cwd=web))
            return 0
    except BuildFailed as error:
        return _failed(error)
    return build(web)


def build(web: Path) -> int:
    """Build once; says how that went."""
    try:
        node = require_node(ROOT)
        install_packages(node, web)
        check_types(node, web)
        with TemporaryDirectory() as folder:
            built = bundle(node, web, Path(folder))
        names = write_files(web, built, ROOT / STATIC)
    except BuildFailed as error:
        return _failed(error)
    packed = sum(len(gzip.compress(content, 9)) for content in [*built.entries.values(), *built.parts.values()])
    print(f"built {len(names)} files of the dashboard, {packed // 1024} kB compressed", flush=True)
    return 0


def _failed(error: BuildFailed) -> int:
    print(f"the dashboard was not built: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
