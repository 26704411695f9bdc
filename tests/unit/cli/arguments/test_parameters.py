"""How options are declared."""

from __future__ import annotations

from sokovan.cli.arguments.parameters import DECLARED, FIELDS, OptionGroup, Parameter


def test_one_name_and_several_are_kept_alike() -> None:
    assert Parameter(name="--slot").names == ("--slot",)
    assert Parameter(name=["--all", "-a"]).names == ("--all", "-a")
    assert Parameter().names == ()


def test_no_negatives_differ_from_the_usual_ones() -> None:
    assert Parameter().negatives is None
    assert Parameter(negative=()).negatives == ()
    assert Parameter(negative="--closed").negatives == ("--closed",)


def test_a_dataclass_is_declared_by_a_decorator() -> None:
    group = OptionGroup("Session options", sort_key=10)
    declared = Parameter(name=FIELDS, group=group)

    class Options:
        """Stands for a dataclass."""

    assert declared(Options) is Options
    assert getattr(Options, DECLARED) is declared
    assert (group.name, group.sort_key) == ("Session options", 10)
