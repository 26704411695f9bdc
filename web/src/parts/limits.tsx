// What users and groups hold beside the limits of their quotas.
import { all, call } from "../api.ts";
import { amount } from "../format.ts";
import { limitRows } from "../limits.ts";
import type { GroupBody, PolicyBody, UsageHistoryView, UserBody } from "../wire.ts";
import { CopyCommand, Empty, ProblemBox, Skeleton } from "./basics.tsx";
import { useResource } from "./resource.ts";

export function Limits({ policies }: { policies: readonly PolicyBody[] }) {
  const found = useResource("limits", async (signal) => {
    const [users, groups, user, group] = await Promise.all([
      all<UserBody>("users", signal),
      all<GroupBody>("groups", signal),
      call<UsageHistoryView>("usage/history?by=user", { signal }),
      call<UsageHistoryView>("usage/history?by=group", { signal }),
    ]);
    const owners = [...users.map((one) => ({ ...one, kind: "user" as const })), ...groups.map((one) => ({ ...one, kind: "group" as const }))];
    return { owners: owners.flatMap(({ kind, name, policy }) => (policy ? [{ kind, name, policy }] : [])), held: { user, group } };
  });
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={3} />;
  const { owners, held } = found.value;
  const rows = limitRows(owners, policies, held);
  if (!rows.length) return <Empty title="No user and no group has a quota that limits slots." command="sokovan user set NAME --quota QUOTA" />;
  return (
    <>
      <h2>Limits and what is held</h2>
      <div class="table-box" tabIndex={0} role="region" aria-label="limits">
        <table>
          <thead><tr><th>Owner</th><th>Quota</th><th>Slot</th><th class="wide">Share of the limit</th><th class="right">Held lately</th><th class="right">Limit</th></tr></thead>
          <tbody>
            {rows.slice(0, 200).map((row) => (
              <tr key={`${row.kind} ${row.name} ${row.slot}`}>
                <th scope="row">{row.kind} {row.name}</th>
                <td>{row.policy}</td>
                <td>{row.slot}</td>
                <td class="wide"><span class="share" aria-hidden="true"><span class={row.used > row.limit ? "over" : "used"} style={{ width: `${Math.min(100, (row.used / Math.max(1, row.limit)) * 100)}%` }} /></span></td>
                <td class="right">{amount(row.slot, row.used)}</td>
                <td class="right">{amount(row.slot, row.limit)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">Held is the mean of the last {Math.max(1, Math.round(held.user.step_s / 60))} minutes.{rows.length > 200 ? ` The 200 nearest to their limit of ${rows.length}.` : ""}</p>
      <div class="actions"><CopyCommand command="sokovan usage --last 24h --by user" /></div>
    </>
  );
}
