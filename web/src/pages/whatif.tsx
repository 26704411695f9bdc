// What changes of the cluster would do: weights, drains and new machines, as a difference of two plans.
import { useState } from "preact/hooks";
import { all, call } from "../api.ts";
import { amount, plural, shellWords } from "../format.ts";
import { useAction } from "../parts/action.ts";
import { CopyCommand, Empty, Figure, ProblemBox, Skeleton } from "../parts/basics.tsx";
import { useResource } from "../parts/resource.ts";
import { href, query, replaceQuery } from "../router.ts";
import { me } from "../session.ts";
import { type Changes, addressOf, asked, changesOf, unfinishedChanges, whatIfLine } from "../whatif.ts";
import type { QueueBody, ScalingGroupBody, WhatIfView } from "../wire.ts";

const DEFAULT_GROUP = "default";

/** Scaling groups to choose from: the default one, and the one of the address, are there before they are read. */
function namesOf(groups: readonly ScalingGroupBody[], chosen: string): string[] {
  return [...new Set([DEFAULT_GROUP, ...groups.map((one) => one.name), ...(chosen ? [chosen] : [])])];
}

export function WhatIfPage() {
  const [changes, setChanges] = useState<Changes>(() => asked(query.value));
  const [found, setFound] = useState<WhatIfView | null>(null);
  const action = useAction();
  const queues = useResource<QueueBody[]>("queue names", (signal) => all("queues", signal));
  const groups = useResource<ScalingGroupBody[]>("scaling group names", (signal) => all("scaling-groups", signal));
  if (!me.value) return <Skeleton lines={6} />;
  const body = changesOf(changes);
  const isChanged = Boolean(body.drain?.length || Object.keys(body.weights ?? {}).length || Object.keys(body.add ?? {}).length);
  const typing = unfinishedChanges(changes);
  const change = (more: Partial<Changes>) => {
    const next = { ...changes, ...more };
    setFound(null);
    setChanges(next);
    replaceQuery(addressOf(next));
  };
  const compare = (event: Event) => {
    event.preventDefault();
    action.run(() => call<WhatIfView>("what-if", { method: "POST", body }).then(setFound));
  };
  const weights = new Map(changes.weights);
  return (
    <form class="new" onSubmit={compare}>
      <div class="bar"><h1>What if</h1></div>
      {me.value.role === "admin" ? (
        <>
          <div class="fields">
            <label>
              Scaling group
              <select value={changes.group} onChange={(event) => change({ group: event.currentTarget.value })}>
                {namesOf(groups.value ?? [], changes.group).map((name) => <option key={name} value={name === DEFAULT_GROUP ? "" : name}>{name}</option>)}
              </select>
            </label>
            <label class="wide">
              Agents to drain
              <input value={changes.drain} placeholder="r01n1, r01n2" spellcheck={false} onInput={(event) => change({ drain: event.currentTarget.value })} />
            </label>
            <label>
              Machines like this agent
              <input value={changes.like} placeholder="r01n1" spellcheck={false} onInput={(event) => change({ like: event.currentTarget.value })} />
            </label>
            <label>
              How many to add
              <input value={changes.count} inputMode="numeric" placeholder="0" onInput={(event) => change({ count: event.currentTarget.value })} />
            </label>
            {(queues.value ?? []).map((queue) => (
              <label key={queue.name}>
                Weight of {queue.name}
                <input
                  value={weights.get(queue.name) ?? ""} inputMode="numeric" placeholder={`${queue.weight ?? 1} now`}
                  onInput={(event) => change({ weights: [...weights.set(queue.name, event.currentTarget.value)] })}
                />
              </label>
            ))}
          </div>
          {typing ? <p class="muted" role="status">{typing}</p> : null}
          {action.problem ? <ProblemBox problem={action.problem} /> : null}
          <div class="actions">
            <button type="submit" class="primary" disabled={action.busy || !isChanged || Boolean(typing)}>Compare</button>
            {typing ? null : <CopyCommand command={isChanged ? shellWords(whatIfLine(body)) : "sokovan what-if --help"} />}
          </div>
          {found ? <Difference found={found} /> : isChanged || typing ? null : <p class="muted">Fill in a change to compare the next scheduling cycle with and without it. Nothing is changed.</p>}
        </>
      ) : (
        <Empty title="This is for administrators." />
      )}
    </form>
  );
}

function Difference({ found }: { found: WhatIfView }) {
  const figure = (label: string, name: "starts" | "waits" | "evicts") => (
    <Figure label={label} value={String(found.after[name])} note={found.after[name] === found.before[name] ? "as now" : `${found.before[name]} now`} />
  );
  const shares = found.shares.filter((one) => text(one.slot, one.after) !== text(one.slot, one.before));
  return (
    <section aria-label="difference" aria-live="polite">
      <h2>The next scheduling cycle after these changes</h2>
      <dl class="figures">
        {figure("sessions start", "starts")}
        {figure("sessions wait", "waits")}
        {figure("kernels are evicted", "evicts")}
      </dl>
      {shares.length ? (
        <ul aria-label="shares">
          {shares.map((one) => (
            <li key={`${one.queue} ${one.slot}`}>queue {one.queue} deserves {text(one.slot, one.after)} {one.slot} instead of {text(one.slot, one.before)}</li>
          ))}
        </ul>
      ) : null}
      {found.sessions.length ? (
        <div class="table-box" tabIndex={0} role="region" aria-label="sessions with another verdict">
          <table>
            <thead><tr><th>Session</th><th>User</th><th>Queue</th><th>Now</th><th>After</th></tr></thead>
            <tbody>
              {found.sessions.map((one) => (
                <tr key={one.id}>
                  <th scope="row"><a href={href(`/sessions/${encodeURIComponent(one.id)}`)}>{one.name}</a></th>
                  <td>{one.user}</td>
                  <td>{one.queue}</td>
                  <td><code>{one.before}</code></td>
                  <td><code>{one.after}</code></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p class="muted">No waiting session gets another verdict.</p>
      )}
      {found.left_out ? <p class="muted">{plural(found.left_out, "more session differs", "more sessions differ")}.</p> : null}
    </section>
  );
}

function text(slot: string, value: number | null): string {
  return value === null ? "any" : amount(slot, value);
}
