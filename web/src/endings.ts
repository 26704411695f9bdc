// Ending several sessions at once: which ones, the same as a command, and what became of them. Pure.
import { plural, shellWords } from "./format.ts";
import { countBy, type SessionRow } from "./rows.ts";
import { ENDED } from "./states.ts";
import type { StopItemView } from "./wire.ts";

/** Sessions that one request names at most. */
export const LINES_MAX = 10_000;
// Sessions that a command names at most: it is to be read before it is run.
const NAMED_MAX = 200;

/** The selected sessions that have not ended; those that wait first, so that none starts on what another one frees. */
export function stoppable(rows: readonly SessionRow[], chosen: ReadonlySet<string>): SessionRow[] {
  const found = chosen.size ? rows.filter((row) => chosen.has(row.id) && !ENDED.has(row.status)) : [];
  return [...found.filter((row) => row.status === "pending"), ...found.filter((row) => row.status !== "pending")];
}

/** The command that stops all of them; empty if it would be too long. */
export function stopCommand(rows: readonly SessionRow[]): string {
  if (rows.length > NAMED_MAX) return "";
  const names = countBy(rows, (row) => row.name);
  // Users may have sessions of the same name.
  return shellWords(["sokovan", "stop", ...rows.map((row) => (row.name && names.get(row.name) === 1 ? row.name : row.id))]);
}

/** What became of a request, in one line. */
export function summaryOf(items: readonly StopItemView[]): string {
  const refused = items.filter((one) => one.problem).length;
  const ended = items.filter((one) => !one.problem && ENDED.has(one.status ?? "")).length;
  const ending = items.length - refused - ended;
  return [
    ...(ending ? [`${plural(ending, "session")} will end.`] : []),
    ...(ended ? [`${plural(ended, "session")} ${ended === 1 ? "has" : "have"} ended.`] : []),
    ...(refused ? [`${plural(refused, "session")} ${refused === 1 ? "was" : "were"} refused.`] : []),
  ].join(" ");
}
