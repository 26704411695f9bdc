"""The errors of the API, in addition to those of the domain."""

from __future__ import annotations

from sokovan.api import errors
from sokovan.domain.errors import SokovanError


def own_errors() -> list[type[SokovanError]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, SokovanError) and kind.__module__ == errors.__name__
    ]


def test_every_error_has_a_code_of_its_own_and_says_what_to_do() -> None:
    kinds = own_errors()
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(kind.hint and kind.hint != SokovanError.hint for kind in kinds)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert all(kind.__name__ in (errors.__doc__ or "") for kind in own_errors())


def test_a_refusal_without_a_key_is_always_the_same() -> None:
    assert str(errors.Unauthenticated()) == str(errors.Unauthenticated())


def test_a_refused_method_lists_those_there_are() -> None:
    error = errors.MethodNotAllowed(method="PUT", path="/x", allowed=["POST", "GET"])
    assert error.allowed == ("GET", "POST")
    assert "GET, POST" in error.message
