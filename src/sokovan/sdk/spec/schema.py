"""The JSON Schemas of specs, and an example spec."""

from __future__ import annotations

from typing import Any

from sokovan.sdk.spec import deployment_spec
from sokovan.sdk.spec.fields import schema_of
from sokovan.sdk.spec.session_spec import API_VERSION, KIND, REQUIRED, SESSION_FIELDS

FILE_NAME = "session.schema.json"


def session_schema() -> dict[str, Any]:
    """The JSON Schema of a session spec, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A session of Sokovan",
        **schema_of(SESSION_FIELDS, required=REQUIRED),
    }


def deployment_schema() -> dict[str, Any]:
    """The JSON Schema of a deployment spec, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A deployment of Sokovan",
        **schema_of(deployment_spec.DEPLOYMENT_FIELDS, required=deployment_spec.REQUIRED),
    }


def starter(name: str) -> str:
    """An example spec."""
    return f"""\
# yaml-language-server: $schema={FILE_NAME}
apiVersion: {API_VERSION}
kind: {KIND}
name: {name}
image: host
resources: {{cpu: 1, mem: 1GiB}}    # and gpu: 1
run: python -c "print('hello')"
timeLimit: 1h
"""
