// Users, groups, quotas and the like as forms: which fields each has, and how they are read and written. Pure.

export type FieldKind = "text" | "words" | "number" | "slots" | "choice" | "flag";
export type Item = Record<string, unknown>;

export interface CatalogField {
  name: string;
  label: string;
  kind: FieldKind;
  choices?: readonly string[];
  /** Without a value it is null, not left out. */
  nullable?: boolean;
}

export interface CatalogKind {
  path: string;
  title: string;
  noun: string;
  fields: readonly CatalogField[];
  /** Its other options are given by the command line only. */
  partly?: boolean;
}

const POLICY: CatalogField = { name: "policy", label: "Quota", kind: "text", nullable: true };
const WEIGHT: CatalogField = { name: "weight", label: "Weight", kind: "number" };

export const KINDS: readonly CatalogKind[] = [
  {
    path: "users", title: "Users", noun: "user",
    fields: [
      { name: "domain", label: "Domain", kind: "text" },
      { name: "groups", label: "Groups", kind: "words" },
      { name: "role", label: "Role", kind: "choice", choices: ["user", "domain-admin", "admin"] },
      POLICY, WEIGHT,
    ],
  },
  { path: "groups", title: "Groups", noun: "group", fields: [{ name: "domain", label: "Domain", kind: "text" }, POLICY, WEIGHT] },
  { path: "domains", title: "Domains", noun: "domain", fields: [POLICY] },
  {
    path: "policies", title: "Quotas", noun: "quota", partly: true,
    fields: [
      { name: "slots_max", label: "Slots at once", kind: "slots" },
      { name: "sessions_max", label: "Sessions at once", kind: "number", nullable: true },
      { name: "pending_sessions_max", label: "Waiting sessions", kind: "number", nullable: true },
      { name: "kernels_per_session_max", label: "Kernels of a session", kind: "number", nullable: true },
      { name: "priority_max", label: "Highest priority", kind: "number", nullable: true },
    ],
  },
  {
    path: "queues", title: "Queues", noun: "queue", partly: true,
    fields: [
      { name: "parent", label: "Parent", kind: "text", nullable: true },
      WEIGHT,
      { name: "open", label: "Open", kind: "flag" },
    ],
  },
  {
    path: "scaling-groups", title: "Scaling groups", noun: "scaling-group", partly: true,
    fields: [
      { name: "scheduler", label: "Scheduler", kind: "text" },
      { name: "session_types", label: "Types of sessions", kind: "words" },
      { name: "public", label: "For everyone", kind: "flag" },
      { name: "assigned_to", label: "Assigned to", kind: "words" },
      { name: "default_queue", label: "Default queue", kind: "text", nullable: true },
      { name: "lifetime_max_s", label: "Longest lifetime (s)", kind: "number", nullable: true },
      { name: "idle_timeout_s", label: "Ends when idle (s)", kind: "number", nullable: true },
      { name: "pending_timeout_s", label: "Waits at most (s)", kind: "number", nullable: true },
      { name: "allow_best_effort", label: "Best effort", kind: "flag", choices: ["no", "yes"] },
      { name: "isolated_network", label: "Isolated network", kind: "flag", choices: ["no", "yes"] },
    ],
  },
];

/** A value as its field of the form shows it. */
export function shown(field: CatalogField, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (field.kind === "words" && Array.isArray(value)) return value.join(", ");
  if (field.kind === "slots") return Object.entries(value as Record<string, unknown>).map(([slot, most]) => `${slot}=${String(most)}`).join(", ");
  if (field.kind === "flag") return value ? "yes" : "no";
  return String(value);
}

function parts(text: string): string[] {
  return text.split(/[,\s]+/).filter((part) => part !== "");
}

/** The value of a field, as the API takes it; undefined leaves it out. */
export function given(field: CatalogField, text: string): unknown {
  const trimmed = text.trim();
  switch (field.kind) {
    case "words":
      return parts(trimmed);
    case "slots":
      return Object.fromEntries(parts(trimmed).map((part) => {
        const at = part.indexOf("=");
        return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
      }));
    case "flag":
      return (trimmed || field.choices?.[0]) !== "no";
    case "number":
      if (trimmed) return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
      return field.nullable ? null : undefined;
    default:
      if (trimmed) return trimmed;
      return field.nullable ? null : undefined;
  }
}

/** The request that makes an item what the form says; what the form does not show stays. */
export function bodyFrom(kind: CatalogKind, before: Item | null, name: string, texts: Record<string, string>): Item {
  const body: Item = { ...before, name };
  for (const field of kind.fields) {
    const value = given(field, texts[field.name] ?? "");
    if (value === undefined) delete body[field.name];
    else body[field.name] = value;
  }
  return body;
}
