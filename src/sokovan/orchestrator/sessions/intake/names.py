"""Generates names for sessions that were submitted without one."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ADJECTIVES = _words(
    "able amber ample apt azure bold brave brief bright brisk broad calm candid cheery chief clean clear clever "
    "cosy crisp curious daring dawn deep deft dewy eager early earnest easy fair famed fast fine firm fleet fond "
    "frank free fresh gentle glad golden good grand green happy hardy hearty honest humble ideal jade jolly jovial "
    "keen kind large late leafy light lively long loyal lucid lucky lunar mellow merry mighty mild misty modest "
    "neat nimble noble novel open pale patient plain polite prime proud pure quick quiet rapid rare ready regal "
    "rich ripe rosy royal ruby sage sandy serene sharp shiny silent silver sincere sleek smart smooth snowy soft "
    "solar solid spry steady still stout sturdy sunny sure swift tall tame tender tidy true trusty vast vivid warm "
    "wavy wild wise witty young zesty"
)
_ANIMALS = _words(
    "adder ant auk badger bat bear beaver bee bison boar bream buck bunting carp cat cod colt condor coot coral "
    "cougar crab crane cricket crow cub curlew deer dingo dolphin dove duck dunlin eagle eel egret eider elk emu "
    "falcon fawn ferret finch fox frog gannet gecko gibbon gnu goat goose grebe grouse gull hare hawk hen heron "
    "horse ibex ibis jackal jay kestrel kite kiwi koala lark lemur linnet lion lizard llama lynx macaw marmot "
    "marten martin merlin mink mole moose moth mouse newt ocelot octopus orca oriole oryx osprey otter owl ox "
    "panda parrot perch pike pipit plover puffin puma quail rabbit raven robin rook salmon seal shrew shrike "
    "skylark snail sparrow stag starling stoat stork swan swift tapir teal tern thrush tiger toad trout turtle "
    "viper vole walrus warbler weasel whale wolf wombat wren yak zebra"
)
_NUMBERS = 99

COUNT = len(_ADJECTIVES) * len(_ANIMALS) * _NUMBERS


def name_of(number: int) -> str:
    """The name for a number; names repeat after COUNT numbers.

    >>> name_of(0)
    'able-adder-1'
    """
    rest, adjective = divmod(number % COUNT, len(_ADJECTIVES))
    last, animal = divmod(rest, len(_ANIMALS))
    return f"{_ADJECTIVES[adjective]}-{_ANIMALS[animal]}-{last + 1}"
