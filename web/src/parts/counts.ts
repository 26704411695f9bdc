// How many sessions are in each state: counted here if the browser holds all of them, otherwise by the server.
import { call } from "../api.ts";
import { clusterTick, cut, sessions } from "../live/store.ts";
import { countBy } from "../rows.ts";
import type { SessionCountsView } from "../wire.ts";
import { useResource } from "./resource.ts";

export function useCounts(): ReadonlyMap<string, number> {
  const counted = useResource<SessionCountsView | null>(
    `counts ${cut.value}`, (signal) => (cut.value ? call("sessions/counts", { signal }) : Promise.resolve(null)), cut.value ? clusterTick.value : 0,
  );
  if (!counted.value) return countBy(sessions.value, (row) => row.status);
  return new Map(counted.value.items.map((one) => [one.value, one.count]));
}
