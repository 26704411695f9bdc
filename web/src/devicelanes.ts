// Devices over time as lanes: who held each, and when its agent was closed or booked. Pure.
import type { TimelineView } from "./wire.ts";

export type PieceKind = "held" | "closed" | "booked" | "kept";

export interface Piece {
  kind: PieceKind;
  /** Milliseconds; an end that is still to come is that of the view. */
  from: number;
  to: number;
  text: string;
  /** The session to go to; empty if it is hidden, or none. */
  session: string;
}

export interface DeviceLane {
  agent: string;
  /** Devices with the same pieces share a lane. */
  devices: string[];
  pieces: Piece[];
}

export function deviceLanes(view: TimelineView): DeviceLane[] {
  const until = Date.parse(view.until);
  const end = (text: string | null) => (text === null ? until : Date.parse(text));
  return view.agents.flatMap((agent) => {
    const around: Piece[] = [
      ...view.closed.filter((one) => one.agent === agent).map((one) => ({ kind: "closed" as const, from: Date.parse(one.since), to: end(one.until), text: one.status, session: "" })),
      ...view.bookings
        .filter((one) => one.agents.includes(agent))
        .map((one) => ({ kind: "booked" as const, from: Date.parse(one.starts_at), to: Date.parse(one.ends_at), text: `${one.kind} ${one.name}`, session: "" })),
      ...view.kept
        .filter((one) => one.agent === agent && one.starts_at !== null)
        .map((one) => ({ kind: "kept" as const, from: Date.parse(one.starts_at ?? ""), to: until, text: `kept for ${one.name || "another session"}`, session: one.session })),
    ];
    const held = new Map<string, Piece[]>();
    for (const one of view.holds) {
      if (one.agent !== agent) continue;
      const text = one.name ? `${one.name} of ${one.user}` : "a session that you may not see";
      held.set(one.device, [...(held.get(one.device) ?? []), { kind: "held", from: Date.parse(one.since), to: end(one.until), text, session: one.session }]);
    }
    const lanes = new Map<string, DeviceLane>();
    for (const device of view.devices[agent] ?? []) {
      const pieces = [...(held.get(device) ?? []), ...around];
      const key = JSON.stringify(pieces);
      const lane = lanes.get(key);
      if (lane) lane.devices.push(device);
      else lanes.set(key, { agent, devices: [device], pieces });
    }
    return [...lanes.values()];
  });
}

/** Devices of a lane in short: gpu0, or 8: gpu0 to gpu7. */
export function devicesText(devices: readonly string[]): string {
  const [first = "", ...rest] = devices;
  return rest.length ? `${devices.length}: ${first} to ${rest.at(-1)}` : first;
}
