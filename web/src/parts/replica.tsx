// One replica of a deployment: its state, its session, its endpoint, and why it does not serve.
import { printable } from "../format.ts";
import { latencyLine, measuredText } from "../latency.ts";
import { endpointLines, tileTone } from "../replicas.ts";
import { href } from "../router.ts";
import { Age, State } from "./basics.tsx";
import type { ReplicaView, ReplicaWhyView, RouteEndpointView } from "../wire.ts";

interface ReplicaProps {
  replica: ReplicaView;
  endpoint: RouteEndpointView | undefined;
  why: ReplicaWhyView | undefined;
}

export function Replica({ replica, endpoint, why }: ReplicaProps) {
  const told = new Set([replica.reason, endpoint?.error ?? ""]);
  const reasons = [replica.reason, endpoint?.error ?? "", ...[why?.summary ?? "", why?.why?.summary ?? ""].filter((one) => !told.has(one))];
  // Why it does not serve; of one that does there is nothing to explain.
  const code = replica.status === "active" ? "" : replica.reason_code || why?.why?.code || "";
  return (
    <li class={`tile ${tileTone(replica, endpoint)}`}>
      <p><strong>{replica.ordinal}</strong> <State status={replica.status} /></p>
      <p class="muted">revision {replica.revision}{replica.attempt > 1 ? `, attempt ${replica.attempt}` : ""}, for <Age at={replica.since} /></p>
      <p>
        {replica.session ? <a href={href(`/sessions/${encodeURIComponent(replica.session)}`)}>session</a> : null}
        {replica.agent ? <> on <a href={href(`/cluster?agent=${encodeURIComponent(replica.agent)}`)}>{replica.agent}</a></> : null}
      </p>
      {endpoint ? <ul class="plain muted" aria-label="endpoint">{endpointLines(endpoint).map((line) => <li key={line}>{line}</li>)}</ul> : null}
      {replica.latency ? <p class="muted" title={measuredText(replica.latency)}>{latencyLine(replica.latency)} (p50 / p95)</p> : null}
      {code ? <p><code>{code}</code></p> : null}
      {[...new Set(reasons)].filter(Boolean).map((one) => <p key={one}>{printable(one)}</p>)}
      {why?.log.length ? (
        <details>
          <summary>Its last output</summary>
          <pre tabIndex={0} aria-label="last output">{printable(why.log.join("\n"))}</pre>
        </details>
      ) : null}
    </li>
  );
}
