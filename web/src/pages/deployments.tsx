// Deployments: their replicas, where requests go, the rollout under way, and what can be done about them.
import { useState } from "preact/hooks";
import { Problem, all, call } from "../api.ts";
import { plural, printable, shellWords, slotsText } from "../format.ts";
import { clusterTick, now } from "../live/store.ts";
import { useAction } from "../parts/action.ts";
import { Age, Confirm, CopyCommand, Empty, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { Playground } from "../parts/playground.tsx";
import { useResource } from "../parts/resource.ts";
import { go, href } from "../router.ts";
import { UpdateForm } from "./serve.tsx";
import type { DeploymentView, DeploymentWhyView, ReplicaView, RevisionPage, RouteEndpointView, RouteView } from "../wire.ts";

// Reports of proxies are no events.
const EVERY_MS = 5_000;

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
              <tr><th>Name</th><th>State</th><th>Health</th><th class="right">Replicas</th><th>Revision</th><th>Engine</th><th>Model</th><th>User</th><th class="right">Age</th></tr>
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
  return (
    <div class="deployment session">
      <div class="bar">
        <h1>{view.name}</h1>
        <State status={view.status} />
        <span class="spring" />
        <CopyCommand command={shellWords(["sokovan", "deployment", "show", view.name])} />
      </div>
      <Actions view={view} path={ref} changed={found.retry} />
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
      {why?.summary ? <p class="summary">{printable(why.summary)}</p> : null}
      <h2>Replicas</h2>
      {view.replicas.length ? (
        <ul class="tiles" aria-label="replicas">
          {view.replicas.map((one) => <Replica key={one.id} replica={one} endpoint={route?.endpoints.find((end) => end.replica === one.ordinal && end.revision === one.revision)} />)}
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

function Replica({ replica, endpoint }: { replica: ReplicaView; endpoint: RouteEndpointView | undefined }) {
  return (
    <li class="tile">
      <p><strong>{replica.ordinal}</strong> <State status={replica.status} /></p>
      <p class="muted">revision {replica.revision}{replica.attempt > 1 ? `, attempt ${replica.attempt}` : ""}, for <Age at={replica.since} /></p>
      <p>
        {replica.session ? <a href={href(`/sessions/${encodeURIComponent(replica.session)}`)}>session</a> : null}
        {replica.agent ? <> on <a href={href(`/cluster?agent=${encodeURIComponent(replica.agent)}`)}>{replica.agent}</a></> : null}
      </p>
      {endpoint ? (
        <p class="muted">
          {endpoint.healthy === null ? "not checked yet" : endpoint.healthy ? "answers" : "does not answer"}, weight {endpoint.weight}, {endpoint.served} served, {endpoint.outstanding} under way
        </p>
      ) : null}
      {replica.reason ? <p>{printable(replica.reason)}</p> : null}
      {endpoint?.error ? <p>{printable(endpoint.error)}</p> : null}
    </li>
  );
}

type Asked = "delete" | "promote" | "rollback" | null;

function Actions({ view, path, changed }: { view: DeploymentView; path: string; changed: () => void }) {
  const [least, setLeast] = useState(String(view.replicas_min));
  const [asked, setAsked] = useState<Asked>(null);
  const action = useAction(changed);
  const wanted = Math.trunc(Number(least));
  const valid = least.trim() !== "" && Number.isFinite(wanted) && wanted >= 0;
  const most = view.replicas_min === view.replicas_max ? wanted : Math.max(wanted, view.replicas_max);
  const scale = (event: Event) => {
    event.preventDefault();
    action.run(() => call(`${path}/scale`, { method: "POST", body: { replicas_min: wanted, replicas_max: most } }));
  };
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
      <form class="actions" onSubmit={scale}>
        <label>
          {view.replicas_min === view.replicas_max ? "replicas" : "least replicas"}{" "}
          <input class="short" inputMode="numeric" value={least} onInput={(event) => setLeast(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={action.busy || !valid || wanted === view.replicas_min}>Scale</button>
        {view.rollout ? <button type="button" disabled={action.busy} onClick={() => setAsked("promote")}>Promote</button> : null}
        {view.rollout || view.revision.number > 1 ? <button type="button" disabled={action.busy} onClick={() => setAsked("rollback")}>Roll back</button> : null}
        <button type="button" class="danger" disabled={action.busy} onClick={() => setAsked("delete")}>Delete</button>
      </form>
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
