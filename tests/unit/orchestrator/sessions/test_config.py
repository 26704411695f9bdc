"""The numbers that a coordinator goes by."""

from sokovan.orchestrator.sessions.config import Timing
from sokovan.testing.orchestrated_cluster import OrchestratedCluster


def test_the_usual_pace_is_the_one_that_is_promised() -> None:
    pace = Timing()
    assert (pace.apart_s, pace.long_cycle_s, pace.lease_ttl_s) == (0.02, 10.0, 10.0)
    assert (pace.patience.suspect_s, pace.patience.lost_s, pace.lost_s) == (15.0, 45.0, 60.0)
    assert (pace.brake.share, pace.brake.agents_min, pace.brake.window_s) == (0.3, 4, 60.0)
    assert (pace.retention.seconds, pace.retention.kernels_max) == (3600.0, 1000)
    assert (pace.errands.at_a_time, pace.errands.per_agent, pace.brake.hold_s) == (256, 16, 600.0)


async def test_a_coordinator_keeps_to_the_pace_it_is_given() -> None:
    async with OrchestratedCluster.open(pace=Timing(long_cycle_s=4.0, lease_ttl_s=6.0, apart_s=0.5)) as cluster:
        rounds, lease = cluster.coordinator.tasks()
        assert (rounds.hints, rounds.apart_s, rounds.long_cycle_s) == (("sessions",), 0.5, 4.0)
        assert (lease.hints, lease.long_cycle_s) == ((), 2.0)
