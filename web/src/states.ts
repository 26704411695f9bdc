// States of sessions, kernels and agents: a mark and a tone each, so that colour is never alone.

export type Tone = "wait" | "start" | "run" | "good" | "bad" | "end";

interface StateLook {
  mark: string;
  tone: Tone;
}

const LOOKS: Record<string, StateLook> = {
  pending: { mark: "○", tone: "wait" },
  scheduled: { mark: "◔", tone: "start" },
  preparing: { mark: "◔", tone: "start" },
  pulling: { mark: "◑", tone: "start" },
  prepared: { mark: "◑", tone: "start" },
  creating: { mark: "◕", tone: "start" },
  running: { mark: "●", tone: "run" },
  terminating: { mark: "◌", tone: "end" },
  terminated: { mark: "■", tone: "end" },
  cancelled: { mark: "⊘", tone: "end" },
  success: { mark: "✓", tone: "good" },
  failure: { mark: "✕", tone: "bad" },
  alive: { mark: "●", tone: "run" },
  draining: { mark: "◐", tone: "wait" },
  suspect: { mark: "?", tone: "wait" },
  lost: { mark: "✕", tone: "bad" },
  provisioning: { mark: "◔", tone: "start" },
  starting: { mark: "◔", tone: "start" },
  warming: { mark: "◑", tone: "start" },
  active: { mark: "●", tone: "run" },
  unhealthy: { mark: "!", tone: "bad" },
  stopping: { mark: "◌", tone: "end" },
  destroying: { mark: "◌", tone: "end" },
  failed: { mark: "✕", tone: "bad" },
  gone: { mark: "⊘", tone: "end" },
};

export const ENDED: ReadonlySet<string> = new Set(["terminated", "cancelled"]);
/** The order of the filters on the page of sessions. */
export const STATUSES = [
  "pending", "scheduled", "preparing", "pulling", "prepared", "creating", "running", "terminating", "terminated",
  "cancelled",
] as const;

export function look(status: string, result: string | null = null): StateLook {
  if (status === "terminated" && (result === "success" || result === "failure")) {
    return LOOKS[result] ?? { mark: "■", tone: "end" };
  }
  return LOOKS[status] ?? { mark: "·", tone: "end" };
}
