// A line of steps over time, with its figures in words for those who do not see it.
import { averageOf, pathOf, type Step } from "../timeline.ts";

const WIDTH = 600;
const HEIGHT = 60;

interface ChartProps {
  label: string;
  steps: readonly Step[];
  from: number;
  to: number;
  total: number;
}

export function DeviceChart({ label, steps, from, to, total }: ChartProps) {
  const peak = steps.reduce((most, step) => Math.max(most, step.devices), 0);
  const scale = Math.max(total, peak, 1);
  const last = steps.at(-1)?.devices ?? 0;
  const line = pathOf(steps, from, to, scale, WIDTH, HEIGHT);
  const rounded = (value: number) => String(Math.round(value * 10) / 10);
  const words = `${rounded(last)} now, ${rounded(averageOf(steps, to))} on average, ${rounded(peak)} at most${total ? `, of ${total}` : ""}`;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${words}`}>
        {line ? <path class="area" d={`${line}V${HEIGHT}H0Z`} /> : null}
        <path class="line-of" d={line} vector-effect="non-scaling-stroke" />
      </svg>
      <figcaption class="muted">{label}: {words}</figcaption>
    </figure>
  );
}
