// What tabs and the worker say to each other.
import type { EventView, FleetChangeView, FleetView, ProblemView } from "../wire.ts";
import type { SessionRow } from "../rows.ts";

export type ToWorker =
  | { kind: "open"; proof: string }
  | { kind: "close" }
  | { kind: "refresh" }
  // A tab has scrolled to the end of the list.
  | { kind: "more" }
  // A tab shows these sessions, wherever in the list they are.
  | { kind: "watch"; ids: string[] }
  // Whether a page of a tab shows the fleet.
  | { kind: "fleet"; shown: boolean };

/** The fleet as a whole, or what has changed in it, or why there is none. */
export interface FleetMessage {
  kind: "fleet";
  fleet?: FleetView;
  change?: FleetChangeView;
  problem?: ProblemView;
}

export type FromWorker =
  | { kind: "sessions"; rows: SessionRow[]; whole: boolean; cut: boolean }
  // Sessions that a tab watches and that are older than those of the list.
  | { kind: "apart"; rows: SessionRow[] }
  | { kind: "events"; events: EventView[] }
  | FleetMessage
  | { kind: "line"; up: boolean; at: number }
  | { kind: "denied" };
