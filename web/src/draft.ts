// The form of a new session, as a request and as a command line. Pure.
import type { SessionBody, SessionView } from "./wire.ts";
import { bytes, shellWords } from "./format.ts";

export interface Draft {
  command: string;
  name: string;
  queue: string;
  size: string;
  cpus: string;
  mem: string;
  gpus: string;
  topology: string;
  where: string;
}

export const EMPTY: Draft = { command: "", name: "", queue: "", size: "1", cpus: "1", mem: "1GiB", gpus: "", topology: "", where: "" };

/** Words of a command line: quotes group, a backslash takes the next character as it is. */
export function words(line: string): string[] {
  const found: string[] = [];
  let word = "";
  let quote = "";
  let inside = false;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] ?? "";
    if (quote) {
      if (char === quote) quote = "";
      else if (char === "\\" && quote === '"' && /["\\$`]/.test(line[at + 1] ?? "")) word += line[(at += 1)] ?? "";
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      inside = true;
    } else if (char === "\\") {
      word += line[(at += 1)] ?? "";
      inside = true;
    } else if (/\s/.test(char)) {
      if (inside || word) found.push(word);
      word = "";
      inside = false;
    } else word += char;
  }
  if (inside || word) found.push(word);
  return found;
}

export function bodyOf(draft: Draft): SessionBody {
  const resources: Record<string, string> = {};
  for (const [slot, value] of [["cpu", draft.cpus], ["mem", draft.mem], ["cuda.device", draft.gpus]] as const) {
    if (value.trim() && value.trim() !== "0") resources[slot] = value.trim();
  }
  return {
    command: words(draft.command),
    resources,
    size: Math.max(1, Math.trunc(Number(draft.size)) || 1),
    ...(draft.name.trim() ? { name: draft.name.trim() } : {}),
    ...(draft.queue ? { queue: draft.queue } : {}),
    ...(draft.topology.trim() ? { topology: draft.topology.trim() } : {}),
    ...(draft.where.trim() ? { where: [draft.where.trim()] } : {}),
  };
}

export function commandLine(draft: Draft): string[] {
  const body = bodyOf(draft);
  const resources = body.resources ?? {};
  const option = (name: string, value: string | undefined) => (value ? [name, value] : []);
  return [
    "sokovan", "run",
    ...option("--name", draft.name.trim()),
    ...option("--queue", draft.queue),
    ...((body.size ?? 1) > 1 ? ["--size", String(body.size)] : []),
    ...option("--cpus", resources["cpu"] as string | undefined),
    ...option("--mem", resources["mem"] as string | undefined),
    ...option("--gpus", resources["cuda.device"] as string | undefined),
    ...option("--topology", draft.topology.trim()),
    ...option("--where", draft.where.trim()),
    "--", ...words(draft.command),
  ];
}

/** The form of a session that is like another one, with a name of its own. */
export function draftOf(view: SessionView): Draft {
  const share = (slot: string) => (view.kernels[0]?.slots ?? {})[slot] ?? (view.slots[slot] ?? 0) / view.size;
  return {
    command: shellWords(view.command),
    name: "",
    queue: view.queue,
    size: String(view.size),
    cpus: share("cpu") ? String(share("cpu") / 1000) : "",
    mem: share("mem") ? exactBytes(share("mem")) : "",
    gpus: share("cuda.device") ? String(share("cuda.device")) : "",
    topology: view.topology ?? "",
    where: view.where[0] ?? "",
  };
}

/** Bytes in the largest unit that has no fraction, without a blank. */
function exactBytes(value: number): string {
  const text = bytes(value).replace(" ", "");
  return /^[0-9]+[A-Z]/.test(text) && Number.isInteger(value / 2 ** 20) ? text : String(value);
}
