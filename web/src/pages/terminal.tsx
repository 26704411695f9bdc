// A terminal in a kernel of a session, as large as the window.
import { call } from "../api.ts";
import { sessionRow } from "../live/store.ts";
import { Empty, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { useResource } from "../parts/resource.ts";
import { Terminal } from "../parts/terminal.tsx";
import { href, query } from "../router.ts";
import type { SessionView } from "../wire.ts";

export function TerminalPage({ id }: { id: string }) {
  const found = useResource<SessionView>(`terminal ${id}`, (signal) => call(`sessions/${encodeURIComponent(id)}`, { signal }), sessionRow(id)?.status);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={6} />;
  const view = found.value;
  const name = view.name || view.id;
  const kernel = Math.max(0, Math.trunc(Number(query.value.get("kernel") ?? 0)) || 0);
  const status = view.kernels.find((one) => one.index === kernel)?.status;
  return (
    <div class="terminal-page">
      <div class="bar">
        <h1>Terminal</h1>
        <a href={href(`/sessions/${encodeURIComponent(view.id)}`)}>{name}</a>
        <State status={view.status} result={view.result} />
      </div>
      {status === undefined || status === "running" ? (
        <Terminal key={`${view.id} ${kernel}`} session={view.id} name={name} kernel={kernel} whole />
      ) : (
        <Empty title={`A terminal needs a running kernel; kernel ${kernel} is ${status}.`} />
      )}
    </div>
  );
}
