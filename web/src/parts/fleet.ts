// The fleet as it is now, for the pages that show it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { changedFleet } from "../fleet.ts";
import type { FleetMessage } from "../live/messages.ts";
import { followFleet, refresh } from "../live/store.ts";
import { type MapAgent, agentsOf } from "../map.ts";
import type { FleetView, ProblemView } from "../wire.ts";

interface ShownFleet {
  fleet: FleetView | null;
  agents: MapAgent[];
  problem: ProblemView | null;
  retry: () => void;
}

interface Known {
  fleet: FleetView | null;
  problem: ProblemView | null;
}

const UNKNOWN: Known = { fleet: null, problem: null };

function after(known: Known, message: FleetMessage): Known {
  const { fleet = known.fleet, change, problem = null } = message;
  return { fleet: fleet && change ? changedFleet(fleet, change) : fleet, problem };
}

export function useFleet(): ShownFleet {
  const [{ fleet, problem }, setKnown] = useState(UNKNOWN);
  useEffect(() => {
    followFleet((message) => setKnown((known) => after(known, message)));
    return () => followFleet(null);
  }, []);
  const agents = useMemo(() => (fleet ? agentsOf(fleet) : []), [fleet]);
  return { fleet, agents, problem, retry: refresh };
}
