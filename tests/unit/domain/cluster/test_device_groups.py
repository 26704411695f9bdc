"""Groups of devices as labels, and back."""

from __future__ import annotations

from sokovan.domain.checks import LABEL_TEXT_MAX
from sokovan.domain.cluster.device_groups import GROUPS_MAX, DeviceGroup, device_groups, group_labels

A, B, C, D = DEVICES = [f"GPU-{letter * 8}-1234" for letter in "abcd"]


def test_groups_are_named_in_labels_and_found_in_them_closest_first() -> None:
    groups = {"numa0": {A, B}, "nvlink0": {A, B, C}, "nvlink-part1": {B, C}, "pcie0": {A, C}}
    labels = group_labels(groups)
    assert labels["sokovan.gpu-group.pcie0"] == "GPU-aaaaaaaa,GPU-cccccccc"
    found = device_groups({**labels, "rack": "r1"}, DEVICES)
    assert found == (
        DeviceGroup(0, "sokovan.gpu-group.nvlink-part1", frozenset({B, C})),
        DeviceGroup(0, "sokovan.gpu-group.nvlink0", frozenset({A, B, C})),
        DeviceGroup(1, "sokovan.gpu-group.pcie0", frozenset({A, C})),
        DeviceGroup(2, "sokovan.gpu-group.numa0", frozenset({A, B})),
    )


def test_devices_of_another_slot_or_unknown_ones_are_in_no_group() -> None:
    assert device_groups({"sokovan.gpu-group.numa0": "GPU-aaaaaaaa,what"}, [A, D])[0].devices == {A}
    assert device_groups({}, DEVICES) == ()


def test_labels_are_bounded() -> None:
    many = {f"numa{number}": {A, B} for number in range(GROUPS_MAX + 5)}
    assert len(group_labels(many)) == GROUPS_MAX
    assert group_labels({"numa0": {f"GPU-{number:08}" for number in range(LABEL_TEXT_MAX)}}) == {}
