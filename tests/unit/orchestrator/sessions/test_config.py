"""Default timing, and that a coordinator uses the timing it is given."""

from sokovan.orchestrator.sessions.config import Timing
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


def test_the_default_timing() -> None:
    timing = Timing()
    assert (timing.min_interval_s, timing.long_cycle_s, timing.lease_ttl_s) == (0.02, 10.0, 10.0)
    assert (timing.heartbeats.suspect_s, timing.heartbeats.lost_s, timing.session_lost_s) == (15.0, 45.0, 60.0)
    assert (timing.mass_failures.share, timing.mass_failures.agents_min, timing.mass_failures.window_s) == (
        0.3,
        4,
        60.0,
    )
    assert (timing.retention.seconds, timing.retention.kernels_max) == (3600.0, 1000)
    assert (timing.requests.concurrent_max, timing.requests.per_agent) == (256, 16)


async def test_a_coordinator_uses_the_timing_it_is_given() -> None:
    async with OrchestratedCluster.open(
        timing=Timing(long_cycle_s=4.0, lease_ttl_s=6.0, min_interval_s=0.5)
    ) as cluster:
        cycles, lease, heartbeats = cluster.coordinator.tasks()
        assert (cycles.hints, cycles.min_interval_s, cycles.long_cycle_s) == (("sessions",), 0.5, 4.0)
        assert (lease.hints, lease.long_cycle_s) == ((), 2.0)
        assert (heartbeats.hints, heartbeats.long_cycle_s) == ((), 1.0)
