// What the tiles of replicas say of their endpoints. Pure.
import { plural } from "./format.ts";
import type { DeploymentWhyView, ReplicaView, RouteEndpointView } from "./wire.ts";

/** The replicas of a deployment, with those that failed and that no further attempt has replaced yet. */
export function tilesOf(replicas: readonly ReplicaView[], why: DeploymentWhyView | null): ReplicaView[] {
  const place = (one: ReplicaView) => `${one.revision} ${one.ordinal}`;
  const there = new Set(replicas.map(place));
  const failed = (why?.replicas ?? []).map((one) => one.replica).filter((one) => !there.has(place(one)));
  return [...replicas, ...failed].sort((one, other) => one.revision - other.revision || one.ordinal - other.ordinal);
}

/** The endpoint of a replica in short sentences, the most important first. */
export function endpointLines(endpoint: RouteEndpointView): string[] {
  const { healthy, answers, failures, failing, ejected, ejections, outstanding, waiting } = endpoint;
  const health = healthy === null ? "not checked yet" : healthy ? "answers its checks" : "does not answer its checks";
  return [
    `${health}, weight ${endpoint.weight}`,
    `${outstanding} under way${waiting ? `, ${waiting} of them waiting in the engine` : ""}, ${endpoint.served} served`,
    ...(answers ? [`${failures} of the last ${plural(answers, "answer")} failed`] : []),
    ...(failing ? ["fails again and again, while another replica answers"] : []),
    ...(ejected ? [`left out by ${plural(ejected, "gateway")} for the time being`] : []),
    ...(ejections ? [`left out ${plural(ejections, "time")} so far`] : []),
  ];
}

/** How a tile looks: bad if the replica serves no requests well, waiting while it comes or goes. */
export function tileTone(replica: ReplicaView, endpoint: RouteEndpointView | undefined): "good" | "wait" | "bad" {
  if (["failed", "unhealthy"].includes(replica.status) || endpoint?.failing || endpoint?.ejected || endpoint?.healthy === false) return "bad";
  return replica.status === "active" ? "good" : "wait";
}
