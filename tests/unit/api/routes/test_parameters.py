"""Parameters that many operations share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from sokovan.api.routes.parameters import SessionChoice, name_field
from sokovan.domain.ids import is_name
from sokovan.ports.repositories.sessions import SessionFilter


class Named(BaseModel):
    name: str | None = name_field("A name.")


@given(st.one_of(st.text(max_size=5), st.from_regex(r"[A-Za-z0-9._\-/:@+\n]{0,130}", fullmatch=True)))
def test_a_name_in_a_query_is_what_a_name_is_everywhere(text: str) -> None:
    try:
        Named(name=text)
        taken = True
    except ValidationError:
        taken = False
    assert taken == is_name(text)


def test_no_name_at_all_is_fine() -> None:
    assert Named().name is None


def test_a_choice_limits_by_what_it_says() -> None:
    assert SessionChoice().filter() == SessionFilter()
    assert SessionChoice(queue="q", user="ada").filter() == SessionFilter(queue="q", user="ada")
