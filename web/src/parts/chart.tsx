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
  /** How a value is written. */
  show?: (value: number) => string;
  /** What the last value is. */
  end?: string;
  /** A low line without a caption, for a figure that says the rest. */
  small?: boolean;
}

export function StepChart({ label, steps, from, to, total, show = rounded, end = "now", small = false }: ChartProps) {
  const peak = steps.reduce((most, step) => Math.max(most, step.devices), 0);
  const scale = Math.max(total, peak, 1);
  const last = steps.at(-1)?.devices ?? 0;
  const line = pathOf(steps, from, to, scale, WIDTH, HEIGHT);
  const words = `${show(last)} ${end}, ${show(averageOf(steps, to))} on average, ${show(peak)} at most${total ? `, of ${show(total)}` : ""}`;
  return (
    <figure class={`chart${small ? " small" : ""}`}>
      {/* One measurement is no line yet. */}
      {to > from ? (
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${words}`}>
          <title>{words}</title>
          {line ? <path class="area" d={`${line}V${HEIGHT}H0Z`} /> : null}
          <path class="line-of" d={line} vector-effect="non-scaling-stroke" />
        </svg>
      ) : null}
      {small ? null : <figcaption class="muted">{label}: {words}</figcaption>}
    </figure>
  );
}

function rounded(value: number): string {
  return String(Math.round(value * 10) / 10);
}
