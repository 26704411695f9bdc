// Lines of what was held over the last 24 hours, read again every minute.
import { call } from "../api.ts";
import { amount } from "../format.ts";
import { now } from "../live/store.ts";
import { hoursOf, seriesOf, unitOf } from "../timeline.ts";
import type { UsageHistoryView } from "../wire.ts";
import { Empty, ProblemBox, Skeleton } from "./basics.tsx";
import { StepChart } from "./chart.tsx";
import { type Resource, useResource } from "./resource.ts";

const EVERY_MS = 60_000;
const LINES_MAX = 12;

export function useUsage(query: string): Resource<UsageHistoryView> {
  return useResource<UsageHistoryView>(`usage ${query}`, (signal) => call(`usage/history?${query}`, { signal }), Math.floor(now.value / EVERY_MS));
}

/** The line of one slot, for the figure of that slot. */
export function SlotLine({ view, slot, total }: { view: UsageHistoryView | null; slot: string; total: number }) {
  const series = view ? seriesOf(view, slot)[0] : undefined;
  if (!view || !series) return null;
  return (
    <StepChart
      small end="lately" label={`${slot} held over 24 h`} steps={series.steps} from={Date.parse(view.since)} to={Date.parse(view.until)} total={total}
      show={(value) => amount(slot, Math.round(value))}
    />
  );
}

/** The line of the sessions that ran or waited, for their figure. */
export function SessionLine({ view, level }: { view: UsageHistoryView | null; level: "running" | "waiting" }) {
  const series = view ? seriesOf(view, level)[0] : undefined;
  if (!view || !series) return null;
  return <StepChart small end="lately" label={`${level} over 24 h`} steps={series.steps} from={Date.parse(view.since)} to={Date.parse(view.until)} total={0} />;
}

/** The line of the GPUs that sessions waited for. */
export function WaitingLine({ view }: { view: UsageHistoryView | null }) {
  const series = view ? seriesOf(view, "waiting")[0] : undefined;
  if (!view || !series) return null;
  return <StepChart small end="lately" label="GPUs requested by sessions that waited over 24 h" steps={series.steps} from={Date.parse(view.since)} to={Date.parse(view.until)} total={0} />;
}

/** The line of the agents that took kernels. */
export function AgentLine({ view, total }: { view: UsageHistoryView | null; total: number }) {
  const series = view ? seriesOf(view, "alive")[0] : undefined;
  if (!view || !series) return null;
  return <StepChart small end="lately" label="agents that took kernels over 24 h" steps={series.steps} from={Date.parse(view.since)} to={Date.parse(view.until)} total={total} />;
}

/** A line for each queue that held something of a slot. */
export function QueueLines({ group, slot }: { group: string; slot: string }) {
  const found = useUsage(new URLSearchParams({ by: "queue", slot, scaling_group: group }).toString());
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={3} />;
  const view = found.value;
  const lines = seriesOf(view, slot).slice(0, LINES_MAX);
  const most = Math.max(...lines.flatMap((one) => one.steps.map((step) => step.devices)), 0);
  if (!lines.length) return <Empty title={`No queue held ${slot} in the last 24 hours.`} />;
  return (
    <div class="lines">
      {lines.map((one) => (
        <div key={one.name} class="lines-row">
          <span class="lines-name">{one.name}</span>
          <StepChart
            label={one.name} steps={one.steps} from={Date.parse(view.since)} to={Date.parse(view.until)} total={most}
            show={(value) => amount(slot, Math.round(value))} small end="lately"
          />
          <span class="right" title={`hours of ${unitOf(slot)}`}>{hoursOf(slot, one.steps, view.step_s)} h</span>
        </div>
      ))}
    </div>
  );
}
