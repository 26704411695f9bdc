// The fleet as it is now, for the pages that show it.
import { useEffect, useMemo } from "preact/hooks";
import { fleet, fleetProblem, refresh, showFleet } from "../live/store.ts";
import { type MapAgent, agentsOf } from "../map.ts";
import type { FleetView, ProblemView } from "../wire.ts";

export interface ShownFleet {
  fleet: FleetView | null;
  agents: MapAgent[];
  problem: ProblemView | null;
  retry: () => void;
}

export function useFleet(): ShownFleet {
  useEffect(() => {
    showFleet(true);
    return () => showFleet(false);
  }, []);
  const found = fleet.value;
  const agents = useMemo(() => (found ? agentsOf(found) : []), [found]);
  return { fleet: found, agents, problem: fleetProblem.value, retry: refresh };
}
