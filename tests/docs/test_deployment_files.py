"""The example of the page about deployment files agrees with the reader."""

from __future__ import annotations

import re
from pathlib import Path

from sokovan.sdk.spec.deployment_spec import read_deployment_documents

PAGE = (Path(__file__).parents[2] / "docs/howto/deployment-files.md").read_text(encoding="utf-8")


def test_the_example_is_a_valid_file() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    [document] = read_deployment_documents(example, "qwen.yaml")
    assert (document.body.name, document.body.replicas_max) == ("qwen", 8)
