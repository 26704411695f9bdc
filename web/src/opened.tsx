// The page of an address. Each is a file of its own, read when it is opened.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, ProblemBox, Skeleton } from "./parts/basics.tsx";
import { decodedPart } from "./router.ts";
import type { ProblemView } from "./wire.ts";

type Page = FunctionComponent<{ id: string }>;

const FILES: readonly (readonly [RegExp, () => Promise<Page>])[] = [
  [/^\/$/, async () => (await import("./pages/overview.tsx")).OverviewPage],
  [/^\/sessions$/, async () => (await import("./pages/sessions.tsx")).SessionsPage],
  [/^\/sessions\/([^/]+)$/, async () => (await import("./pages/session.tsx")).SessionPage],
  [/^\/sessions\/([^/]+)\/terminal$/, async () => (await import("./pages/terminal.tsx")).TerminalPage],
  [/^\/new$/, async () => (await import("./pages/new.tsx")).NewPage],
  [/^\/cluster$/, async () => (await import("./pages/cluster.tsx")).ClusterPage],
  [/^\/queues$/, async () => (await import("./pages/queues.tsx")).QueuesPage],
  [/^\/deployments$/, async () => (await import("./pages/deployments.tsx")).DeploymentsPage],
  [/^\/deployments\/new$/, async () => (await import("./pages/serve.tsx")).ServePage],
  [/^\/deployments\/([^/]+)$/, async () => (await import("./pages/deployments.tsx")).DeploymentPage],
  [/^\/timeline$/, async () => (await import("./pages/timeline.tsx")).TimelinePage],
  [/^\/bookings$/, async () => (await import("./pages/bookings.tsx")).BookingsPage],
  [/^\/bookings\/([^/]+)$/, async () => (await import("./pages/bookings.tsx")).BookingPage],
  [/^\/history$/, async () => (await import("./pages/history.tsx")).HistoryPage],
  [/^\/what-if$/, async () => (await import("./pages/whatif.tsx")).WhatIfPage],
  [/^\/admin$/, async () => (await import("./pages/admin.tsx")).AdminPage],
];

// The pages that were read, by their place in the table.
const read = new Map<number, Page>();

function missing(): ProblemView {
  return {
    type: "", title: "No answer", status: 0, detail: "the files of this page cannot be read", code: "unreachable",
    hint: "the server does not answer, or has been updated since the dashboard was opened", request_id: "", problems: [],
  };
}

function found(here: string): readonly [number, string] {
  const at = FILES.findIndex(([address]) => address.test(here));
  return [at, decodedPart(FILES[at]?.[0].exec(here)?.[1] ?? "")];
}

async function open(at: number): Promise<void> {
  const page = await FILES[at]?.[1]();
  if (page) read.set(at, page);
}

/** Begin to read the files of an address that is likely to be opened. */
export function expect(here: string): void {
  open(found(here)[0]).catch(() => undefined);
}

export function Opened({ here }: { here: string }) {
  const [at, id] = found(here);
  const [, setState] = useState(0);
  const [failed, setFailed] = useState(-1);
  const Shown = read.get(at);
  useEffect(() => {
    // By what was shown, not by what is read by now: `expect` may have read it since, and nobody would show it.
    if (at < 0 || Shown) return undefined;
    let left = false;
    open(at).then(
      () => left || setState((count) => count + 1),
      () => left || setFailed(at),
    );
    return () => {
      left = true;
    };
  }, [at]);
  if (at < 0) return <Empty title="There is no such page." />;
  if (Shown) return <Shown key={`${at} ${id}`} id={id} />;
  // A browser keeps what it could not read; a new page asks again.
  if (failed === at) return <ProblemBox problem={missing()} retry={() => location.reload()} />;
  return <Skeleton lines={8} />;
}
