// Why a session is in its state: the verdict, the checks, what remains of the agents, and what would help.
import type { WhyView } from "../wire.ts";
import { call } from "../api.ts";
import { adviceText } from "../facts.ts";
import { plural, printable } from "../format.ts";
import { Age, CopyCommand, ProblemBox, Skeleton } from "./basics.tsx";
import { useResource } from "./resource.ts";

const MARKS: Record<string, string> = { ok: "✓", no: "✕", short: "!" };

export function Why({ id, tick }: { id: string; tick: unknown }) {
  const found = useResource<WhyView>(`why ${id}`, (signal) => call(`sessions/${encodeURIComponent(id)}/why`, { signal }), tick);
  if (found.problem) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={4} />;
  const why = found.value;
  const funnel = Object.entries(why.funnel);
  const advice = adviceText(why.verdict);
  return (
    <div class="why">
      <p class="summary">{printable(why.summary)}</p>
      <p class="muted">
        {advice ? <><strong>{advice}</strong> · </> : null}
        <code>{why.code}</code>
        {why.position > 0 ? <> · {why.position} ahead of it in its queue</> : null}
        {why.as_of ? <> · as of <Age at={why.as_of} /> ago</> : null}
      </p>
      {why.checks.length ? (
        <ul class="checks" aria-label="checks">
          {why.checks.map((check, index) => (
            <li key={index} class={check.result}>
              <span class="mark" aria-hidden="true">{MARKS[check.result] ?? "·"}</span>
              <span>{check.name} <span class="muted">{check.result}</span> {printable(check.detail)}</span>
            </li>
          ))}
        </ul>
      ) : null}
      {funnel.length ? (
        <p class="funnel" aria-label="agents that remain after each check">
          {funnel.map(([name, count]) => <span key={name}>{name.replaceAll("_", " ")} <strong>{count}</strong></span>)}
        </p>
      ) : null}
      {why.ahead.length ? (
        <details>
          <summary>{why.position > why.ahead.length ? `${why.ahead.length} of ${plural(why.position, "session")}` : plural(why.ahead.length, "session")} ahead</summary>
          <ul>{why.ahead.map((one) => <li key={one.session}><a href={`/ui/sessions/${encodeURIComponent(one.session)}`}>{one.session}</a> {one.why}</li>)}</ul>
        </details>
      ) : null}
      {why.would_start.length ? (
        <>
          <p>It would start</p>
          <ul aria-label="what would help">
            {why.would_start.map((one) => <li key={one.change}>{one.when}: {printable(one.change)}</li>)}
          </ul>
        </>
      ) : null}
      <CopyCommand command={`sokovan why ${why.name || why.session}`} />
    </div>
  );
}
