// What tabs and the worker say to each other.
import type { EventView } from "../wire.ts";
import type { SessionRow } from "../rows.ts";

export type ToWorker = { kind: "open"; proof: string } | { kind: "close" } | { kind: "refresh" };

export type FromWorker =
  | { kind: "sessions"; rows: SessionRow[]; whole: boolean; cut: boolean }
  | { kind: "events"; events: EventView[] }
  | { kind: "line"; up: boolean; at: number }
  | { kind: "denied" };
