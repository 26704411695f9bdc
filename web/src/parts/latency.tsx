// How long the answers of a deployment took lately, with lines of p95 since the page was opened.
import { useEffect, useState } from "preact/hooks";
import { type LatencyPoint, measuredText, millis, nextPoints, percentilesText } from "../latency.ts";
import type { DeploymentView } from "../wire.ts";
import { Empty, Figure } from "./basics.tsx";
import { StepChart } from "./chart.tsx";

export function Latency({ view }: { view: DeploymentView }) {
  const [points, setPoints] = useState<LatencyPoint[]>([]);
  // A new view is a new reading, also if its figures are those of the last one.
  useEffect(() => setPoints((before) => nextPoints(before, view.latency, Date.now())), [view]);
  const { latency } = view;
  const from = points[0]?.at ?? 0;
  const to = points.at(-1)?.at ?? 0;
  const line = (label: string, of: (point: LatencyPoint) => number) => (
    <StepChart small label={label} steps={points.map((point) => ({ at: point.at, devices: of(point) }))} from={from} to={to} total={0} show={millis} />
  );
  if (!latency) return <Empty title="No answer came in the last minutes. Ask it something:" command={`sokovan chat ${view.name}`} />;
  return (
    <dl class="figures" aria-label="latency">
      <Figure label="to the first token" value={percentilesText(latency.first_p50_ms, latency.first_p95_ms)} note={measuredText(latency)}>
        {line("p95 to the first token", (point) => point.first)}
      </Figure>
      <Figure
        label="to the whole answer" value={latency.whole_answers ? percentilesText(latency.whole_p50_ms, latency.whole_p95_ms) : "–"}
        note={measuredText({ ...latency, answers: latency.whole_answers })}
      >
        {line("p95 to the whole answer", (point) => point.whole)}
      </Figure>
    </dl>
  );
}
