// The form of a deployment, as requests and as command lines. Pure.
import { unclosed, unfinishedAmount, unfinishedNumber, words } from "./draft.ts";
import { bytes, shellWords } from "./format.ts";
import type { DeploymentBody, DeploymentView, RevisionBody, RolloutBody } from "./wire.ts";

export const ENGINES = ["toy", "vllm", "sglang", "llama-cpp", "transformers", "custom"] as const;
export const STRATEGIES = ["rolling", "blue-green", "canary"] as const;

export interface ServedDraft {
  name: string;
  engine: string;
  model: string;
  arguments: string;
  cpus: string;
  mem: string;
  gpus: string;
  replicas: string;
  most: string;
  access: string;
  queue: string;
  strategy: string;
}

export const SERVED: ServedDraft = {
  name: "", engine: "toy", model: "", arguments: "", cpus: "", mem: "", gpus: "", replicas: "1", most: "", access: "private", queue: "",
  strategy: "rolling",
};

/** The form of what the replicas of a deployment run. */
export function servedOf(view: DeploymentView): ServedDraft {
  const { engine, model, arguments: more, command, resources } = view.revision.revision;
  const amount = (slot: string) => {
    const value = resources?.[slot];
    if (value === undefined) return "";
    if (typeof value === "string") return value;
    return slot === "cpu" ? String(value / 1000) : slot === "mem" ? bytes(value).replace(" ", "") : String(value);
  };
  return {
    ...SERVED, name: view.name, engine, model: model ?? "", arguments: shellWords((engine === "custom" ? command : more) ?? []),
    cpus: amount("cpu"), mem: amount("mem"), gpus: amount("cuda.device"), replicas: String(view.replicas_min),
    most: view.replicas_max > view.replicas_min ? String(view.replicas_max) : "", access: view.access, queue: view.queue,
    strategy: view.rollout_policy.strategy ?? "rolling",
  };
}

/** What replicas run; what the form does not show stays as it was. */
export function revisionFrom(draft: ServedDraft, before: RevisionBody | null = null): RevisionBody {
  const resources: Record<string, number | string> = { ...before?.resources };
  for (const [slot, value] of [["cpu", draft.cpus], ["mem", draft.mem], ["cuda.device", draft.gpus]] as const) {
    if (value.trim() && value.trim() !== "0") resources[slot] = value.trim();
    else delete resources[slot];
  }
  const given = words(draft.arguments);
  const body: RevisionBody = { ...before, engine: draft.engine, resources };
  if (draft.engine === "toy") delete body.model;
  else body.model = draft.model.trim();
  if (draft.engine === "custom") body.command = given;
  else body.arguments = given;
  return body;
}

/** What is wrong with the form of a deployment; empty if nothing is. Such a form is not sent. */
export function unfinishedServed(draft: ServedDraft): string {
  const problem = unclosed(draft.engine === "custom" ? "Command" : "Arguments of the engine", draft.arguments) || unfinishedAmount(draft)
    || unfinishedNumber("Replicas", draft.replicas, 0) || unfinishedNumber("Most replicas", draft.most, 1);
  if (problem || !draft.most.trim() || Number(draft.most) >= leastOf(draft)) return problem;
  return "Most replicas is less than Replicas.";
}

function leastOf(draft: ServedDraft): number {
  return Number(draft.replicas.trim() || "1");
}

export function deploymentFrom(draft: ServedDraft): DeploymentBody {
  const least = leastOf(draft);
  const most = Number(draft.most);
  return {
    name: draft.name.trim(),
    revision: revisionFrom(draft),
    access: draft.access as "private" | "project" | "public",
    replicas_min: least,
    ...(most > least ? { replicas_max: most, scaling: { metric: "concurrency" as const } } : {}),
    ...(draft.queue ? { queue: draft.queue } : {}),
  };
}

export function rolloutFrom(draft: ServedDraft, before: RolloutBody): RolloutBody {
  return { ...before, strategy: draft.strategy as "rolling" | "blue-green" | "canary" };
}

function options(draft: ServedDraft): string[] {
  const option = (name: string, value: string) => (value.trim() && value.trim() !== "0" ? [name, value.trim()] : []);
  return [...option("--cpus", draft.cpus), ...option("--mem", draft.mem), ...option("--gpus", draft.gpus)];
}

export function serveLine(draft: ServedDraft): string[] {
  const given = words(draft.arguments);
  const most = Number(draft.most) > leastOf(draft) ? ["--max-replicas", draft.most.trim()] : [];
  return [
    "sokovan", "serve", draft.engine === "toy" ? "toy" : draft.model.trim() || "MODEL",
    ...(draft.name.trim() ? ["--name", draft.name.trim()] : []),
    ...(draft.engine === "toy" ? [] : ["--engine", draft.engine]),
    ...options(draft),
    ...(leastOf(draft) === 1 ? [] : ["--replicas", draft.replicas.trim()]), ...most,
    ...(draft.access === "private" ? [] : ["--access", draft.access]),
    ...(draft.queue ? ["--queue", draft.queue] : []),
    ...(given.length ? ["--", ...given] : []),
  ];
}

export function updateLine(draft: ServedDraft): string[] {
  const given = words(draft.arguments);
  return [
    "sokovan", "deployment", "update", draft.name,
    ...(draft.engine === "toy" ? [] : ["--model", draft.model.trim()]),
    ...options(draft),
    "--strategy", draft.strategy,
    ...(given.length ? ["--", ...given] : []),
  ];
}
