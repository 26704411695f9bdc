"""`sokovan apply`: create or update deployments from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_ACTION, ActionOptions, Flag
from sokovan.cli.commands.serving.revision_options import with_local_files
from sokovan.cli.commands.sessions.session_options import read_text_file
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.sdk.errors import ApiProblem, ClientProblem
from sokovan.sdk.preferences import with_defaults
from sokovan.wire.api.sessions import SessionBody
from sokovan.wire.plain_codec import plain

if TYPE_CHECKING:
    from sokovan.sdk.settings import ClientSettings
    from sokovan.sdk.spec.spec_document import SpecDocument
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.deployments import AppliedDeploymentView, DeploymentBody


def apply(
    *,
    file: Annotated[str, Parameter(name=["--file", "-f"])],
    dry_run: Flag = False,
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Create or update the deployments of a file.

    A deployment that exists already is made what the file says: a change of
    what its replicas run begins an update, and nothing happens if nothing has
    changed. Nothing is applied if the server would refuse one of them. Does not
    wait until they serve.

    For example:
      sokovan apply -f qwen.yaml
      sokovan apply -f models.yaml --dry-run

    Parameters
    ----------
    file
        Deployment spec file (YAML); - for stdin.
    dry_run
        Only check the file, and change nothing.
    """
    from sokovan.sdk.spec.deployment_spec import read_deployment_documents  # noqa: PLC0415  # YAML loads only here

    documents = read_deployment_documents(*read_text_file(file))
    settings = server.settings()
    with server.client() as client:
        bodies = [_complete(client, document.body, settings) for document in documents]
        for document, body in zip(documents, bodies, strict=True):
            with _locating_errors(document):
                client.deployments.plan(body)
                if dry_run:
                    print_status(f"{body.name} is valid")
        for view in [] if dry_run else _apply_all(client, documents, bodies):
            if server.json:
                print_data(as_json(plain(view)))
            else:
                print_status(_line(view))
    return OK


def _complete(client: Client, body: DeploymentBody, settings: ClientSettings) -> DeploymentBody:
    """The request with this machine's paths, and the user's own defaults."""
    chosen = with_defaults(SessionBody(queue=body.queue, group=body.group, scaling_group=body.scaling_group), settings)
    return replace(
        body,
        revision=with_local_files(client, body.revision),
        queue=chosen.queue,
        group=chosen.group,
        scaling_group=chosen.scaling_group,
    )


def _apply_all(
    client: Client, documents: list[SpecDocument[DeploymentBody]], bodies: list[DeploymentBody]
) -> Iterator[AppliedDeploymentView]:
    """Apply one after the other; an error says which ones had been applied."""
    done: list[str] = []
    for document, body in zip(documents, bodies, strict=True):
        try:
            with _locating_errors(document):
                view = client.deployments.apply(body)
        except ClientProblem as problem:
            if done:
                problem.hint = f"{', '.join(done)} had been applied; {problem.hint}; then apply the file again"
            raise
        done.append(body.name)
        yield view


@contextmanager
def _locating_errors(document: SpecDocument[DeploymentBody]) -> Iterator[None]:
    """Add the lines of the file to field errors that the server returns."""
    try:
        yield
    except ApiProblem as problem:
        if problem.problems:
            problem.message = document.describe(problem.problems, document.body)
        else:
            problem.message = f"{document.body.name}: {problem.message}"
        raise


def _line(view: AppliedDeploymentView) -> str:
    deployment = view.deployment
    rollout = deployment.rollout
    changes = f", changes to revision {rollout.revision_to}" if rollout is not None else ""
    return f"{deployment.name} {view.outcome}{changes}"
