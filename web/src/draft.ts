// The form of a new session, as a request and as a command line. Pure.
import type { SessionBody, SessionSpecView } from "./wire.ts";
import { shellWords } from "./format.ts";
import { readYaml, writeYaml, type Yaml, YamlProblem } from "./yaml.ts";

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
  return split(line)[0];
}

/** What is wrong with a command line that is not typed to its end; empty if nothing is. */
export function unclosed(label: string, line: string): string {
  return split(line)[1] ? `${label}: a quote is not closed.` : "";
}

function split(line: string): [words: string[], quote: string] {
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
  return [found, quote];
}

const SLOTS = [["cpu", "cpus"], ["mem", "mem"], ["cuda.device", "gpus"]] as const;

/** The request of a form. With a `base`, the session that it is like, the form changes only what it shows. */
export function bodyOf(draft: Draft, base: SessionBody | null = null): SessionBody {
  const name = draft.name.trim() || null;
  const queue = draft.queue || null;
  const topology = draft.topology.trim() || null;
  const where = draft.where.trim();
  if (!base) {
    return {
      command: words(draft.command),
      resources: resourcesOf(draft, {}),
      size: sizeOf(draft),
      ...(name ? { name } : {}),
      ...(queue ? { queue } : {}),
      ...(topology ? { topology } : {}),
      ...(where ? { where: [where] } : {}),
    };
  }
  const common = { ...base, name, queue, topology, where: [...(where ? [where] : []), ...(base.where ?? []).slice(1)] };
  // Its groups have commands, sizes and amounts of their own, which the form does not show.
  if (base.groups?.length) return common;
  return { ...common, command: words(draft.command), size: sizeOf(draft), resources: resourcesOf(draft, base.resources ?? {}) };
}

function sizeOf(draft: Draft): number {
  return Math.max(1, Math.trunc(Number(draft.size)) || 1);
}

function resourcesOf(draft: Draft, base: Record<string, number | string>): Record<string, number | string> {
  const resources = { ...base };
  for (const [slot, field] of SLOTS) {
    const value = draft[field].trim();
    if (value === String(base[slot] ?? "")) continue;
    if (value && (value !== "0" || slot in base)) resources[slot] = value;
    else delete resources[slot];
  }
  return resources;
}

const SCALED = "k|M|G|T|P|Ki|Mi|Gi|Ti|Pi";
const AMOUNTS = {
  cpus: new RegExp(`^\\d{1,20}(\\.\\d{1,20})?(m|${SCALED})?$`),
  mem: new RegExp(`^\\d{1,20}(\\.\\d{1,20})?((${SCALED})?B|${SCALED})?$`),
  gpus: new RegExp(`^\\d{1,20}(\\.\\d{1,20})?(${SCALED})?$`),
} as const;
const LABELS = { cpus: "CPU of each", mem: "Memory of each", gpus: "GPU of each" } as const;
const EXAMPLES = { cpus: "2, 0.5 or 500m", mem: "512MiB or 4GiB", gpus: "1 or 8" } as const;

/** What is wrong with the first field that holds no amount, or no number; empty if nothing is. Such a form is not sent. */
export function unfinished(draft: Draft): string {
  return unclosed("Command", draft.command) || unfinishedNumber("Kernels", draft.size, 1) || unfinishedAmount(draft);
}

export function unfinishedAmount(draft: Pick<Draft, keyof typeof AMOUNTS>): string {
  for (const [, field] of SLOTS) {
    const value = draft[field].trim();
    if (value && !AMOUNTS[field].test(value)) return `${LABELS[field]} is no amount yet, such as ${EXAMPLES[field]}.`;
  }
  return "";
}

/** What is wrong with a field for a whole number; one that is empty has its usual value. */
export function unfinishedNumber(label: string, text: string, least: number): string {
  const value = text.trim();
  return !value || (/^\d{1,9}$/.test(value) && Number(value) >= least) ? "" : `${label} must be a whole number, ${least} or more.`;
}

/** The command that does the same; COMMAND stands for what is not typed yet. Of a session that is like another one, it names what was changed; null if something was emptied. */
export function commandLine(draft: Draft, like: SessionSpecView | null = null): string | null {
  const before = like ? draftOf(like) : null;
  const grouped = Boolean(like?.body.groups?.length);
  const options: string[] = [];
  for (const [field, name] of OPTIONS) {
    const value = draft[field].trim();
    if (before ? value === before[field].trim() : !value || value === (UNSAID[field] ?? "")) continue;
    if (!value) return null;
    if (!grouped || !OF_KERNELS.has(field)) options.push(name, value);
  }
  const secrets = (like?.secrets ?? []).flatMap((one) => ["--secret-env", one]);
  if (!like) return shellWords(["sokovan", "run", ...options, "--", ...(draft.command.trim() ? words(draft.command) : ["COMMAND"])]);
  const command = grouped || draft.command === before?.command ? [] : ["--", ...words(draft.command)];
  return `${shellWords(["sokovan", "session", "spec", like.session])} | ${shellWords(["sokovan", "run", ...options, ...secrets, "-f", "-", ...command])}`;
}

const OPTIONS = [
  ["name", "--name"], ["queue", "--queue"], ["size", "--size"], ["cpus", "--cpus"], ["mem", "--mem"], ["gpus", "--gpus"], ["topology", "--topology"],
  ["where", "--where"],
] as const;
const OF_KERNELS: ReadonlySet<string> = new Set(["size", "cpus", "mem", "gpus"]);
// What a command line need not say.
const UNSAID: Partial<Draft> = { size: "1", cpus: "0", mem: "0", gpus: "0" };

/** The form of a session that is like another one, with a name of its own. */
export function draftOf({ body }: SessionSpecView): Draft {
  const text = (slot: string) => String(body.resources?.[slot] ?? "");
  return {
    command: shellWords(body.command ?? []),
    name: "",
    queue: body.queue ?? "",
    size: String(body.size ?? 1),
    cpus: text("cpu"),
    mem: text("mem"),
    gpus: text("cuda.device"),
    topology: body.topology ?? "",
    where: body.where?.[0] ?? "",
  };
}

// Fields that the form shows.
const SHOWN: ReadonlySet<string> = new Set(["command", "name", "queue", "size", "topology", "where", "secrets"]);

/** The fields of a request that say something, those of the form first left out. */
export function keptOf(body: SessionBody): string[] {
  return Object.keys(given(body)).filter((name) => !SHOWN.has(name));
}

/** A request without its empty values. */
export function given(body: SessionBody): Partial<SessionBody> {
  const says = (value: unknown) => value !== null && value !== "" && (typeof value !== "object" || Object.keys(value).length > 0);
  return Object.fromEntries(Object.entries(body).filter(([, value]) => says(value)));
}

/** The request of a text, or what is wrong with it. */
export type Typed = { body: SessionBody; problem: "" } | { body: null; problem: string };

// Lists and entries of texts, in which people write numbers without quotes.
const TEXTS: ReadonlySet<string> = new Set(["command", "where", "depends_on", "gates", "tolerations", "affinity", "anti_affinity"]);
const TEXT_ENTRIES: ReadonlySet<string> = new Set(["environment", "labels", "require", "secrets"]);

export function textOf(body: SessionBody): string {
  return writeYaml(given(body) as Yaml);
}

export function typedOf(text: string): Typed {
  try {
    const value = readYaml(text) ?? {};
    if (typeof value !== "object" || Array.isArray(value)) return { body: null, problem: "line 1: a request has fields, such as command: [hostname]" };
    const fields = Object.entries(value).map(([name, one]): [string, Yaml] => [name, asTexts(name, one)]);
    return { body: Object.fromEntries(fields) as unknown as SessionBody, problem: "" };
  } catch (error) {
    if (error instanceof YamlProblem) return { body: null, problem: `line ${error.line} ${error.message}` };
    throw error;
  }
}

function asTexts(name: string, value: Yaml): Yaml {
  const text = (one: Yaml) => (typeof one === "number" || typeof one === "boolean" ? String(one) : one);
  if (TEXTS.has(name)) {
    if (!Array.isArray(value)) throw new YamlProblem(1, `and below: ${name} is a list, such as ${name}: [one, two]`);
    return value.map(text);
  }
  if (!TEXT_ENTRIES.has(name) || value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, text(one)]));
}

const FORM: ReadonlySet<string> = new Set(["command", "name", "queue", "size", "topology", "where", "resources"]);

/** The form of a request that was typed, and the request itself if it says more than the form can show. */
export function formOf(body: SessionBody, base: SessionSpecView | null): [Draft, SessionSpecView | null] {
  const view: SessionSpecView = { ...(base ?? { secrets: [], hidden: [], left_out: [], notes: [] }), session: "", body };
  const draft = { ...draftOf(view), name: body.name ?? "" };
  const slots = Object.keys(body.resources ?? {}).every((slot) => SLOTS.some(([shown]) => shown === slot));
  const shown = slots && (body.where ?? []).length < 2 && Object.keys(given(body)).every((name) => FORM.has(name));
  return [draft, shown && !view.secrets.length ? null : view];
}
