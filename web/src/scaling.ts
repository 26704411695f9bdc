// The number of replicas of a deployment, as a form, a request and a command line. Pure.
import { unfinishedNumber } from "./draft.ts";
import type { DeploymentView, ScaleBody } from "./wire.ts";

export const METRICS = ["concurrency", "qps", "queue", "ttft_p95"] as const;
type Metric = (typeof METRICS)[number];

export interface Scale {
  least: string;
  /** Empty: their number is fixed. */
  most: string;
  metric: Metric;
  target: string;
}

type Scaled = Pick<DeploymentView, "name" | "replicas_min" | "replicas_max" | "scaling">;

export function scaleOf(view: Scaled): Scale {
  const { metric, target } = view.scaling;
  const follows = view.replicas_max > view.replicas_min;
  return {
    least: String(view.replicas_min),
    most: follows ? String(view.replicas_max) : "",
    metric: metric && metric !== "manual" ? metric : "concurrency",
    target: follows && target ? String(target) : "",
  };
}

function follows(scale: Scale): boolean {
  return Boolean(scale.most.trim()) && Number(scale.most) > Number(scale.least);
}

/** What is wrong with the form; empty if nothing is. */
export function unfinishedScale(scale: Scale): string {
  if (!scale.least.trim()) return "The number of replicas is missing.";
  const problem = unfinishedNumber("The number of replicas", scale.least, 0) || unfinishedNumber("The most replicas", scale.most, 1) || unfinishedNumber("The target", scale.target, 1);
  if (problem) return problem;
  return scale.most.trim() && Number(scale.most) < Number(scale.least) ? "The most replicas are fewer than the least." : "";
}

/** Whether the form asks for what is there. */
export function isSame(scale: Scale, view: Scaled): boolean {
  return JSON.stringify(scaleBody(scale, view)) === JSON.stringify(scaleBody(scaleOf(view), view));
}

export function scaleBody(scale: Scale, view: Scaled): ScaleBody {
  const least = Number(scale.least);
  if (!follows(scale)) return { replicas_min: least, replicas_max: least, scaling: { ...view.scaling, metric: "manual", target: null } };
  return {
    replicas_min: least, replicas_max: Number(scale.most),
    scaling: { ...view.scaling, metric: scale.metric, target: scale.target.trim() ? Number(scale.target) : null },
  };
}

export function scaleLine(scale: Scale, view: Scaled): string[] {
  const bounds = follows(scale) ? ["--max", scale.most.trim(), "--metric", scale.metric, ...(scale.target.trim() ? ["--target", scale.target.trim()] : [])] : [];
  return ["sokovan", "deployment", "scale", view.name, scale.least.trim(), ...bounds];
}
