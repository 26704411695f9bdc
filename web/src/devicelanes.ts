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

/** A place on a line of bars that can be clicked: it leads to one session, or shows several. Shares of the width. */
export interface Target {
  from: number;
  to: number;
  pieces: Piece[];
}

// A target that is smaller is hard to hit (WCAG 2.2, 2.5.8).
export const TARGET_PX = 24;

interface Room {
  left: number;
  right: number;
  /** Where its bars are drawn. */
  first: number;
  last: number;
  pieces: Piece[];
}

/**
 * Targets for the pieces of a lane that have a session, none smaller than 24 pixels and none over another one: brief
 * sessions that are closer together share one. `share` is the place of a time on the line, from 0 to 1.
 */
export function targetsOf(pieces: readonly Piece[], share: (at: number) => number, width: number): Target[] {
  const rooms = pieces.filter((one) => one.session).map((one) => roomOf(one, share, width));
  const found: Room[] = [];
  for (let room of rooms.sort((one, other) => one.left - other.left || one.right - other.right)) {
    for (let last = found.at(-1); last && last.right > room.left; last = found.at(-1)) {
      if (haveParted(last, room)) break;
      found.pop();
      room = joined(last, room, width);
    }
    found.push(room);
  }
  return found.map((one) => ({ from: one.left / width, to: one.right / width, pieces: one.pieces }));
}

function roomOf(piece: Piece, share: (at: number) => number, width: number): Room {
  const first = share(piece.from) * width;
  const last = Math.max(first, share(piece.to) * width);
  return { ...widened(first, last, width), first, last, pieces: [piece] };
}

/** The room around bars, at least as large as a target and inside of the line. */
function widened(first: number, last: number, width: number): { left: number; right: number } {
  const size = Math.max(TARGET_PX, last - first);
  const left = Math.max(0, Math.min(width - size, (first + last - size) / 2));
  return { left, right: left + size };
}

function joined(one: Room, other: Room, width: number): Room {
  const first = Math.min(one.first, other.first);
  const last = Math.max(one.last, other.last);
  return { ...widened(first, last, width), first, last, pieces: [...one.pieces, ...other.pieces] };
}

/** Whether two rooms do not need to be one: bars beside each other, of which a long one gives the other its edge. */
function haveParted(one: Room, other: Room): boolean {
  if (other.first < one.last) return false;
  if (other.left - one.left >= TARGET_PX && one.last - one.first >= TARGET_PX) one.right = other.left;
  else if (other.right - one.right >= TARGET_PX && other.last - other.first >= TARGET_PX) other.left = one.right;
  else return false;
  return true;
}
