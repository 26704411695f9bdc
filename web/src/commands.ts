// The commands that print what lists of the dashboard show. Pure.
import { shellWords } from "./format.ts";
import { type Sort, type SessionRow, sortParameter } from "./rows.ts";
import { timeText, type Window } from "./window.ts";

function option(name: string, value: string | null): string[] {
  return value?.trim() ? [name, value.trim()] : [];
}

/** All sessions under a filter, ended ones too. A filter that is the reason of a listed session is one. */
export function listCommand(status: string, text: string, sort: Sort, listed: readonly SessionRow[] = []): string {
  const words = text.trim();
  const isReason = Boolean(words) && listed.length > 0 && listed.every((row) => row.reason === words);
  return shellWords([
    "sokovan", "ps", ...(status ? [] : ["--all"]), "--no-limit", ...option("--sort", sortParameter(sort)), ...option("--status", status),
    ...option(isReason ? "--reason" : "--search", words),
  ]);
}

export const ENDED_FILTERS = ["user", "queue", "group", "name", "label"] as const;

/** The sessions that ended, under the filters of an address. */
export function endedCommand(query: URLSearchParams): string {
  const filters = ENDED_FILTERS.flatMap((name) => option(`--${name}`, query.get(name)));
  return shellWords(["sokovan", "ps", "--status", query.get("status") || "ENDED", ...filters]);
}

/** Sessions or devices over a time, under the filters of an address. */
export function timelineCommand(query: URLSearchParams, window: Window): string {
  const what = query.get("view") === "devices" ? ["agent", "timeline", query.get("agent") ?? ""] : ["timeline"];
  const search = query.get("view") === "devices" ? [] : option("--search", query.get("q"));
  const when = window.live ? ["--last", window.span] : ["--from", timeText(window.from), "--to", timeText(window.to)];
  return shellWords(["sokovan", ...what.filter(Boolean), ...when, ...search]);
}
