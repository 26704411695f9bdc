"""`python -m tools.web`: build the dashboard. `--test` runs the tests of its pure modules."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.web.bundle import STATIC, bundle, check_types, install_packages, write_files
from tools.web.node import BuildFailed, require_node, run

ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Build, or test."""
    web = ROOT / "web"
    try:
        node = require_node(ROOT)
        install_packages(node, web)
        if "--test" in arguments:
            print(run([node, "--test", "tests/*.test.ts"], cwd=web))
            return 0
        check_types(node, web)
        with TemporaryDirectory() as folder:
            built = bundle(node, web, Path(folder))
        names = write_files(web, built, ROOT / STATIC)
    except BuildFailed as error:
        print(f"the dashboard was not built: {error}", file=sys.stderr)
        return 1
    packed = sum(len(gzip.compress(content, 9)) for content in [*built.entries.values(), *built.parts.values()])
    print(f"built {len(names)} files of the dashboard, {packed // 1024} kB compressed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
