// Deployments: their replicas, where requests go, the rollout under way, and what can be done about them.
import { useState } from "preact/hooks";
import { Problem, all, call } from "../api.ts";
import { plural, printable, shellWords, slotsText } from "../format.ts";
import { percentilesText } from "../latency.ts";
import { clusterTick, now } from "../live/store.ts";
import { useAction } from "../parts/action.ts";
import { Age, Confirm, CopyCommand, Empty, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { Latency } from "../parts/latency.tsx";
import { Playground } from "../parts/playground.tsx";
import { Replica } from "../parts/replica.tsx";
import { useResource } from "../parts/resource.ts";
import { Tokens } from "../parts/tokens.tsx";
import { tilesOf } from "../replicas.ts";
import { go, href } from "../router.ts";
import { isSame, METRICS, type Scale, scaleBody, scaleLine, scaleOf, unfinishedScale } from "../scaling.ts";
import { UpdateForm } from "./serve.tsx";
import type { DeploymentView, DeploymentWhyView, RevisionPage, RouteView } from "../wire.ts";

// Reports of proxies are no events.
const EVERY_MS = 5_000;
// A rollout that is still planned cannot be promoted yet.
const PROMOTABLE = new Set(["progressing", "awaiting_promotion"]);

function tick(): string {
  return `${clusterTick.value} ${Math.floor(now.value / EVERY_MS)}`;
}

function revisionText(view: DeploymentView): string {
  return view.rollout ? `${view.rollout.revision_from} → ${view.rollout.revision_to}` : String(view.revision.number);
}

export function DeploymentsPage() {
  const found = useResource<DeploymentView[]>("deployments", (signal) => all("deployments", signal), tick());
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={8} />;
  return (
    <div class="deployments">
      <div class="bar">
        <h1>Deployments</h1>
        <span class="spring" />
        <a class="button" href={href("/deployments/new")}>New deployment</a>
        <CopyCommand command="sokovan deployment ls" />
      </div>
      {found.value.length ? (
        <div class="table-box" tabIndex={0} role="region" aria-label="deployments">
          <table>
            <thead>
              <tr><th>Name</th><th>State</th><th>Health</th><th class="right">Replicas</th><th>Revision</th><th>Engine</th><th>Model</th><th class="right">First p50 / p95</th><th class="right">Whole p50 / p95</th><th>User</th><th class="right">Age</th></tr>
            </thead>
            <tbody>
              {found.value.map((one) => (
                <tr key={one.id}>
                  <th scope="row"><a href={href(`/deployments/${encodeURIComponent(one.id)}`)}>{one.name}</a></th>
                  <td><State status={one.status} /></td>
                  <td>{one.health}</td>
                  <td class="right">{one.replicas_active} / {one.replicas_desired}</td>
                  <td>{revisionText(one)}</td>
                  <td>{one.revision.revision.engine}</td>
                  <td>{printable(one.revision.revision.model || "–")}</td>
                  <td class="right">{one.latency ? percentilesText(one.latency.first_p50_ms, one.latency.first_p95_ms) : "–"}</td>
                  <td class="right">{one.latency?.whole_answers ? percentilesText(one.latency.whole_p50_ms, one.latency.whole_p95_ms) : "–"}</td>
                  <td>{one.user}</td>
                  <td class="right"><Age at={one.created_at} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title="Nothing is served. Serve the built-in model, which needs no download:" command="sokovan serve toy" />
      )}
    </div>
  );
}

interface Whole {
  view: DeploymentView;
  route: RouteView | null;
  why: DeploymentWhyView | null;
}

/** What is not there, or not any more, is nothing. */
async function maybe<T>(path: string, signal: AbortSignal): Promise<T | null> {
  try {
    return await call<T>(path, { signal });
  } catch (error) {
    if (error instanceof Problem && (error.view.status === 404 || error.view.status === 409)) return null;
    throw error;
  }
}

export function DeploymentPage({ id }: { id: string }) {
  const ref = `deployments/${encodeURIComponent(id)}`;
  const found = useResource<Whole>(
    `deployment ${id}`,
    async (signal) => {
      const [view, route, why] = await Promise.all([
        call<DeploymentView>(ref, { signal }), maybe<RouteView>(`${ref}/route`, signal), maybe<DeploymentWhyView>(`${ref}/why`, signal),
      ]);
      return { view, route, why };
    },
    tick(),
  );
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={10} />;
  const { view, route, why } = found.value;
  const revision = view.revision.revision;
  const tiles = tilesOf(view.replicas, why);
  return (
    <div class="deployment session">
      <div class="bar">
        <h1>{view.name}</h1>
        <State status={view.status} />
        <span class="spring" />
        <CopyCommand command={shellWords(["sokovan", "deployment", "show", view.name])} />
      </div>
      <Actions view={view} path={ref} changed={found.retry} />
      <ScaleForm key={`${view.replicas_min} ${view.replicas_max} ${view.scaling.metric} ${view.scaling.target}`} view={view} path={ref} changed={found.retry} />
      <Facts
        items={[
          ["health", view.health],
          ["replicas", `${view.replicas_active} of ${view.replicas_desired}, ${view.replicas_min === view.replicas_max ? "fixed" : `between ${view.replicas_min} and ${view.replicas_max} by ${view.scaling.metric}`}`],
          ["engine", `${revision.engine}${revision.model ? ` with ${printable(revision.model)}` : ""}`],
          ["each replica", `${plural(revision.size ?? 1, "kernel")}, ${resourcesText(revision.resources ?? {})}`],
          ["answers to", view.models.join(", ")],
          ["address", view.url ? <code>{view.url}</code> : "no gateway is known"],
          ["access", `${view.access}, of ${view.user} (${view.group})`],
          ["queue", view.queue],
        ]}
      />
      {view.rollout ? (
        <p class="notice" role="status">
          Revision {view.rollout.revision_from} changes to {view.rollout.revision_to} ({view.rollout.strategy}, {view.rollout.status}): {view.rollout.weight_new} % of the requests go to the new one. {printable(view.rollout.reason)}
        </p>
      ) : null}
      {why?.summary ? (
        <div class="summary">
          <p>{printable(why.summary)}{why.replicas.length ? <> <code>{why.code}</code></> : null}</p>
          {why.replicas.length ? <CopyCommand command={shellWords(["sokovan", "deployment", "why", view.name])} /> : null}
        </div>
      ) : null}
      <h2>Latency</h2>
      <Latency key={view.id} view={view} />
      <h2>Replicas</h2>
      {tiles.length ? (
        <ul class="tiles" aria-label="replicas">
          {tiles.map((one) => (
            <Replica
              key={one.id} replica={one} why={why?.replicas.find((other) => other.replica.id === one.id)}
              endpoint={route?.endpoints.find((end) => end.replica === one.ordinal && end.revision === one.revision)}
            />
          ))}
        </ul>
      ) : (
        <Empty title={view.replicas_desired ? "No replica runs at the moment." : "It is scaled to nothing; a request starts a replica if its bounds allow that."} />
      )}
      {route && route.revisions.length > 1 ? (
        <p aria-label="traffic">{route.revisions.map((one) => `revision ${one.revision}: ${one.weight / 10} % of the requests`).join(", ")}</p>
      ) : null}
      {route ? <p class="muted">{plural(route.proxies, "gateway")}, {route.acknowledged} with the current table{route.refusal ? `; ${route.refusal}` : ""}</p> : null}
      {route && view.url ? (
        <>
          <h2>Playground</h2>
          <Playground view={view} path={ref} />
        </>
      ) : null}
      <h2>Keys for clients</h2>
      <Tokens view={view} path={ref} />
      <h2>Change what it runs</h2>
      {view.rollout ? <p class="muted">A rollout is under way; promote it or roll it back first.</p> : <UpdateForm key={view.revision.number} view={view} path={ref} done={found.retry} />}
      <Revisions path={ref} view={view} changed={found.retry} />
    </div>
  );
}

function resourcesText(resources: Record<string, number | string>): string {
  if (!Object.keys(resources).length) return "the usual slots";
  const numbers = Object.entries(resources).every(([, value]) => typeof value === "number");
  if (numbers) return slotsText(resources as Record<string, number>);
  return Object.entries(resources).map(([slot, value]) => `${slot} ${value}`).join(", ");
}

type Asked = "delete" | "promote" | "rollback" | null;

function Actions({ view, path, changed }: { view: DeploymentView; path: string; changed: () => void }) {
  const [asked, setAsked] = useState<Asked>(null);
  const action = useAction(changed);
  const yes = () => {
    setAsked(null);
    if (asked === "delete") action.run(() => call(path, { method: "DELETE" }).then(() => go("/deployments")));
    else if (asked === "rollback") action.run(() => call(`${path}/rollback`, { method: "POST", body: {} }));
    else action.run(() => call(`${path}/promote`, { method: "POST" }));
  };
  const verbs = { delete: "rm", promote: "promote", rollback: "rollback" } as const;
  const titles = {
    delete: `Delete ${view.name}? Its replicas end after the requests they have.`,
    promote: `Let the rollout of ${view.name} go on to the whole deployment?`,
    rollback: view.rollout ? `End the rollout of ${view.name} and return to revision ${view.rollout.revision_from}?` : `Return ${view.name} to the revision before?`,
  };
  return (
    <>
      <div class="actions">
        {view.rollout ? <button type="button" disabled={action.busy || !PROMOTABLE.has(view.rollout.status)} onClick={() => setAsked("promote")}>Promote</button> : null}
        {view.rollout || view.revision.number > 1 ? <button type="button" disabled={action.busy} onClick={() => setAsked("rollback")}>Roll back</button> : null}
        <button type="button" class="danger" disabled={action.busy} onClick={() => setAsked("delete")}>Delete</button>
      </div>
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      {asked ? (
        <Confirm
          title={titles[asked]} action={asked === "delete" ? "Delete" : asked === "promote" ? "Promote" : "Roll back"}
          command={shellWords(["sokovan", "deployment", verbs[asked], view.name])} onYes={yes} onNo={() => setAsked(null)}
        />
      ) : null}
    </>
  );
}

/** A fixed number of replicas, or bounds and the demand that the number follows between them. */
function ScaleForm({ view, path, changed }: { view: DeploymentView; path: string; changed: () => void }) {
  const [scale, setScale] = useState<Scale>(() => scaleOf(view));
  const action = useAction(changed);
  const typing = unfinishedScale(scale);
  const change = (changes: Partial<Scale>) => setScale({ ...scale, ...changes });
  const follows = Boolean(scale.most.trim());
  const send = (event: Event) => {
    event.preventDefault();
    action.run(() => call(`${path}/scale`, { method: "POST", body: scaleBody(scale, view) }));
  };
  return (
    <>
      <form class="actions" onSubmit={send} aria-label="number of replicas">
        <label>{follows ? "least replicas" : "replicas"} <input class="short" inputMode="numeric" value={scale.least} onInput={(event) => change({ least: event.currentTarget.value })} /></label>
        <label>at most <input class="short" inputMode="numeric" placeholder="fixed" value={scale.most} onInput={(event) => change({ most: event.currentTarget.value })} /></label>
        {follows ? (
          <>
            <label>by <select value={scale.metric} onChange={(event) => change({ metric: event.currentTarget.value as Scale["metric"] })}>{METRICS.map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
            <label>target of each <input class="short" inputMode="numeric" placeholder="usual" value={scale.target} onInput={(event) => change({ target: event.currentTarget.value })} /></label>
          </>
        ) : null}
        <button type="submit" disabled={action.busy || Boolean(typing) || isSame(scale, view)}>Scale</button>
        {typing ? null : <CopyCommand command={shellWords(scaleLine(scale, view))} />}
      </form>
      {typing ? <p class="muted" role="status">{typing}</p> : null}
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
    </>
  );
}

function Revisions({ path, view, changed }: { path: string; view: DeploymentView; changed: () => void }) {
  const found = useResource<RevisionPage>(`revisions ${path}`, (signal) => call(`${path}/revisions?limit=20`, { signal }), view.revision.number);
  const action = useAction(changed);
  if (!found.value || found.value.items.length < 2) return null;
  return (
    <>
      <h2>Revisions</h2>
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      <div class="table-box" tabIndex={0} role="region" aria-label="revisions">
        <table>
          <thead><tr><th>Revision</th><th>Engine</th><th>Model</th><th>By</th><th class="right">Age</th><th>Action</th></tr></thead>
          <tbody>
            {found.value.items.map((one) => (
              <tr key={one.number}>
                <th scope="row">{one.number}{one.number === view.revision.number ? " (current)" : ""}</th>
                <td>{one.revision.engine}</td>
                <td>{printable(one.revision.model || "–")}</td>
                <td>{one.created_by || "–"}</td>
                <td class="right"><Age at={one.created_at} /></td>
                <td>
                  {one.number === view.revision.number || view.rollout ? "–" : (
                    <button
                      type="button" disabled={action.busy}
                      onClick={() => action.run(() => call(`${path}/rollback`, { method: "POST", body: { revision: one.number } }))}
                    >
                      Return to it
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
