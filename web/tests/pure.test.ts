import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, commandLine, EMPTY, words } from "../src/draft.ts";
import { EventReader } from "../src/events.ts";
import { amount, duration, printable, shellWords } from "../src/format.ts";
import { extent, lanesOf } from "../src/lanes.ts";
import { agentsOf, heldOn, layout, neighbour, tileAt } from "../src/map.ts";
import { countBy, matches, type SessionRow } from "../src/rows.ts";
import { barsOf, borrowing, scaleOf } from "../src/shares.ts";
import type { FleetView, HistoryLine, QueueBody, QueueShareView } from "../src/wire.ts";

const encoder = new TextEncoder();

test("amounts are written in the units of their slot", () => {
  assert.equal(amount("cpu", 1500), "1.5");
  assert.equal(amount("mem", 16 * 2 ** 30), "16 GiB");
  assert.equal(amount("cuda.device", 8), "8");
  assert.equal(amount("cuda.shares", 250), "0.3");
});

test("a duration has its two largest units", () => {
  assert.deepEqual([0, 59, 61, 3600, 90061].map(duration), ["0s", "59s", "1m 1s", "1h", "1d 1h"]);
});

test("hostile output becomes text without control characters", () => {
  const shown = printable("a\u001b[31mred\u001b[0m\u001b]0;title\u0007\r\n\u0000\u202ex<script>");
  assert.equal(shown, "ared\n\ufffd\ufffdx<script>");
});

test("a command line is split and quoted back", () => {
  assert.deepEqual(words(`sh -c 'echo "a b"' x\\ y ""`), ["sh", "-c", 'echo "a b"', "x y", ""]);
  assert.equal(shellWords(["a b", "it's", "ok"]), `'a b' 'it'\\''s' ok`);
});

test("a draft is a request and the same command line", () => {
  const draft = { ...EMPTY, command: "python t.py", size: "4", gpus: "8", topology: "hard:rack", name: "ddp" };
  assert.deepEqual(bodyOf(draft), {
    command: ["python", "t.py"], resources: { cpu: "1", mem: "1GiB", "cuda.device": "8" }, size: 4, name: "ddp", topology: "hard:rack",
  });
  assert.equal(
    shellWords(commandLine(draft)),
    "sokovan run --name ddp --size 4 --cpus 1 --mem 1GiB --gpus 8 --topology hard:rack -- python t.py",
  );
});

test("events are read however the bytes are cut", () => {
  const bytes = encoder.encode(': connected\n\nevent: change\ndata: {"id":"ä"}\n\nevent: resync\ndata: {}\n\n');
  for (const size of [1, 3, 1000]) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...reader.push(bytes.slice(at, at + size)));
    assert.deepEqual(found, [{ event: "change", data: '{"id":"ä"}' }, { event: "resync", data: "{}" }]);
  }
});

function line(subject: string, after: string, at: number): HistoryLine {
  return {
    subject, after, before: null, sequence: 0, trigger: "", who: "", code: "", detail: "", times: 1,
    at: new Date(at).toISOString(), last_at: "",
  };
}

test("lanes have a span for each state, and the last one goes on", () => {
  const lanes = lanesOf("s", [line("s", "pending", 0), line("k", "pending", 0), line("k", "running", 2000), line("k", "terminated", 5000)], 9000);
  assert.deepEqual(lanes.map((one) => one.subject), ["s", "k"]);
  assert.deepEqual(lanes[0]?.spans, [{ status: "pending", from: 0, to: 9000 }]);
  assert.deepEqual(lanes[1]?.spans.map((one) => one.to - one.from), [2000, 3000, 0]);
  assert.deepEqual(extent(lanes), [0, 9000]);
});

const FLEET: FleetView = {
  as_of: "", hypernodes: ["r2", "r1"], holders: [{ id: "s-1", name: "train", user: "ada", queue: "q" }],
  agents: ["a1", "a2", "b1", "c1"], status: ["alive", "alive", "draining", "alive"], connected: [true, true, true, false],
  kernels: [1, 0, 1, 0], hypernode: [1, 1, 0, -1],
  device: ["0", "1", "0", "0"], device_agent: [0, 0, 1, 2], device_slot: ["gpu", "gpu", "gpu", "gpu"],
  device_units: [1, 1, 1, 1], device_used: [1, 0, 0, 1], device_holder: [0, -1, -1, -2],
};

test("agents are laid out by HyperNode, and found again by place and by key", () => {
  const plan = layout(agentsOf(FLEET), FLEET, 1000);
  assert.deepEqual(plan.blocks.map((one) => [one.name, one.used, one.total]), [["r1", 1, 3], ["r2", 1, 1], ["in no HyperNode", 0, 0]]);
  const [first, second, third] = plan.tiles;
  assert.ok(first && second && third);
  assert.equal(tileAt(plan.tiles, second.x + 1, second.y + 1), 1);
  assert.equal(tileAt(plan.tiles, -1, -1), -1);
  assert.equal(neighbour(plan.tiles, 0, "ArrowRight"), 1);
  assert.equal(neighbour(plan.tiles, 1, "ArrowDown"), 2);
  assert.equal(neighbour(plan.tiles, 2, "ArrowUp"), 0);
});

test("devices of an agent are counted by their session, and others stay unnamed", () => {
  const [first, , third] = agentsOf(FLEET);
  assert.ok(first && third);
  assert.deepEqual(heldOn(first, FLEET), [{ id: "s-1", name: "train", user: "ada", devices: 1 }]);
  assert.deepEqual(heldOn(third, FLEET), [{ id: "", name: "sessions of others", user: "", devices: 1 }]);
});

test("a filter matches every word anywhere", () => {
  const row = { name: "train-1", id: "s-1", user: "ada", queue: "research", reason: "QUOTA_USER" } as SessionRow;
  assert.ok(matches(row, "ADA train"));
  assert.ok(matches(row, ""));
  assert.ok(!matches(row, "ada bob"));
  assert.deepEqual([...countBy(["a", "b", "a"], (one) => one)], [["a", 2], ["b", 1]]);
});

test("queues are bars below their parents, and who borrows from whom is named", () => {
  const queues = [{ name: "b", parent: "root" }, { name: "root" }, { name: "a", parent: "root" }] as QueueBody[];
  const share = (queue: string, allocated: number, deserved: number, waiting: number, borrowed: number): QueueShareView =>
    ({ queue, scaling_group: "default", slot: "gpu", allocated, borrowed, waiting, guarantee: 0, limit: 0, deserved });
  const bars = barsOf(queues, [share("a", 2, 4, 3, 0), share("b", 6, 4, 0, 2)], "gpu");
  assert.deepEqual(bars.map((one) => [one.queue, one.depth]), [["root", 0], ["a", 1], ["b", 1]]);
  assert.equal(scaleOf(bars), 6);
  assert.deepEqual(borrowing(bars), { starved: ["a"], over: ["b"] });
});
