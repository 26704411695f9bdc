"""Queues as a tree, against a model that follows parents upwards; and the shares of one queue."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueTree
from sokovan.domain.errors import InvalidQueues
from sokovan.domain.ids import QueueName
from sokovan.domain.slots import ResourceSlot, SlotLimits
from tests.property.strategies import SLOT_NAMES, queue_forests, slots

small_limits = st.dictionaries(st.sampled_from(SLOT_NAMES), st.integers(0, 3)).map(SlotLimits)


def naive_ancestors(name: str, queues: list[Queue]) -> list[str]:
    by_name = {queue.name: queue for queue in queues}
    above = [] if name == ROOT_QUEUE else [by_name[QueueName(name)].parent]
    return [parent for each in above if each in by_name for parent in (each, *naive_ancestors(each, queues))]


@given(queue_forests())
def test_the_ancestors_of_a_queue_are_its_parents_nearest_first(queues: list[Queue]) -> None:
    tree = QueueTree(queues)
    for queue in queues:
        assert [above.name for above in tree.ancestors(queue.name)] == naive_ancestors(queue.name, queues)


@given(queue_forests())
def test_a_queue_is_a_leaf_exactly_when_it_is_above_no_other(queues: list[Queue]) -> None:
    tree = QueueTree(queues)
    for queue in queues:
        others = [other for other in queues if other.name != queue.name]
        assert tree.is_leaf(queue.name) == all(other.parent != queue.name for other in others)


@given(queue_forests())
def test_every_queue_that_was_given_is_found_again(queues: list[Queue]) -> None:
    tree = QueueTree(queues)
    assert list(tree) == queues
    assert all(tree.get(queue.name) is queue and queue.name in tree for queue in queues)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdef"), min_size=1))
def test_parents_in_any_tangle_are_taken_exactly_when_each_leads_to_the_root(parents: dict[str, str]) -> None:
    # A name that is its own parent is put under the root here, so that some random parents form trees.
    parents = {name: ROOT_QUEUE if parent == name else parent for name, parent in parents.items()}
    parents_to_root = {**parents, ROOT_QUEUE: ROOT_QUEUE}
    sound = all(walk(name, parents_to_root) == ROOT_QUEUE for name in parents)
    queues = [(QueueName(name), QueueName(parent)) for name, parent in parents.items()]
    assert sound == accepts(lambda: QueueTree(Queue(name, parent=parent) for name, parent in queues))


def walk(name: str, parents: dict[str, str]) -> str:
    """The ancestor reached after more steps than there are queues."""
    for _ in range(len(parents) + 1):
        name = parents.get(name, "nowhere")
    return name


def accepts(make: Callable[[], object]) -> bool:
    try:
        make()
    except InvalidQueues:
        return False
    return True


@given(slots(most=3), small_limits, small_limits)
def test_a_queue_is_taken_exactly_when_guarantee_deserved_and_capability_rise(
    guarantee: ResourceSlot, deserved: SlotLimits, capability: SlotLimits
) -> None:
    rising = all(guarantee[slot] <= min(deserved[slot], capability[slot]) for slot in SLOT_NAMES) and all(
        deserved[slot] <= capability[slot] for slot in deserved
    )
    assert rising == accepts(
        lambda: Queue(QueueName("q"), guarantee=guarantee, deserved=deserved, capability=capability)
    )
