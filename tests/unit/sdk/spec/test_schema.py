"""The format of a spec as JSON Schema."""

from __future__ import annotations

import jsonschema_rs
import pytest
import yaml

from sokovan.sdk.spec.deployment_spec import DEPLOYMENT_FIELDS
from sokovan.sdk.spec.schema import deployment_schema, session_schema, starter
from sokovan.sdk.spec.session_spec import SESSION_FIELDS, read_spec_documents
from tests.unit.sdk.spec.test_deployment_spec import WHOLE as DEPLOYMENT
from tests.unit.sdk.spec.test_session_spec import WHOLE


def test_the_schema_has_the_keys_of_the_reader() -> None:
    for text in (WHOLE, starter("train")):
        document = yaml.safe_load(text)
        if "startsAt" in document:  # JSON has no times
            document["startsAt"] = document["startsAt"].isoformat()
        jsonschema_rs.validate(session_schema(), document)
        assert read_spec_documents(text, "f")


@pytest.mark.parametrize("bad", [{"sise": 3}, {"size": "x"}, {"type": "x"}, {"timeLimit": "4 hours"}, {"mounts": [3]}])
def test_the_schema_refuses_what_the_reader_refuses(bad: dict[str, object]) -> None:
    head = {"apiVersion": "sokovan/v1", "kind": "Session"}
    jsonschema_rs.validate(session_schema(), head)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(session_schema(), {**head, **bad})


def test_the_schema_of_deployments_has_the_keys_of_their_reader() -> None:
    document = yaml.safe_load(DEPLOYMENT)
    jsonschema_rs.validate(deployment_schema(), document)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(deployment_schema(), {**document, "replicaz": 1})
    properties = deployment_schema()["properties"]
    assert properties.keys() == DEPLOYMENT_FIELDS.keys()
    assert all(one["description"] for one in properties.values())


def test_every_key_is_described() -> None:
    properties = session_schema()["properties"]
    assert properties.keys() == SESSION_FIELDS.keys()
    assert all(one["description"] for one in properties.values())


def test_a_spec_to_begin_with_is_a_good_one() -> None:
    [spec] = read_spec_documents(starter("train"), "train.sokovan.yaml")
    assert (spec.body.name, spec.body.command) == ("train", ["python", "-c", "print('hello')"])
