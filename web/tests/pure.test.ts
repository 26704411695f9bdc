import assert from "node:assert/strict";
import { test } from "node:test";
import { afterwards, agentsText, ownersText, partText, whenText } from "../src/bookings.ts";
import { bodyFrom, given, KINDS, shown } from "../src/catalog.ts";
import { endedCommand, listCommand, timelineCommand } from "../src/commands.ts";
import { bodyOf, commandLine, draftOf, EMPTY, formOf, keptOf, textOf, typedOf, unfinished, words } from "../src/draft.ts";
import { stopCommand, stoppable, summaryOf } from "../src/endings.ts";
import { EventReader } from "../src/events.ts";
import { problemLines, amount, duration, printable, shellWords } from "../src/format.ts";
import { adviceText, evictionText, rareFacts, timeTo, victimText } from "../src/facts.ts";
import { GrowingList } from "../src/growing.ts";
import { extent, lanesOf } from "../src/lanes.ts";
import { agentsOf, cellAt, faultsOf, heldOn, impactOf, layout, needingAttention, nextSpot, spotAt, ZOOMS } from "../src/map.ts";
import { countBy, matches, merged, searchesFor, type SessionRow, sortAfter, sorted, sortedUntil, sortOf, sortParameter } from "../src/rows.ts";
import { deviceLanes, devicesText, type Piece, TARGET_PX, targetsOf } from "../src/devicelanes.ts";
import { latencyLine, measuredText, millis, nextPoints, POINTS_MAX as LATENCIES_MAX } from "../src/latency.ts";
import { limitRows } from "../src/limits.ts";
import { linesWith, placeWithout, RankLines, ranksOf, ranksText, rankText } from "../src/ranks.ts";
import { endpointLines, tilesOf, tileTone } from "../src/replicas.ts";
import { isSame, scaleBody, scaleLine, scaleOf as scaleOfDeployment, unfinishedScale } from "../src/scaling.ts";
import { modeOf, shading, stepOf } from "../src/shade.ts";
import { barsOf, loansOf, scaleOf } from "../src/shares.ts";
import { deploymentFrom, revisionFrom, SERVED, serveLine, servedOf, unfinishedServed, updateLine } from "../src/served.ts";
import { curlLine, openAiText } from "../src/snippets.ts";
import { targetsFor } from "../src/targets.ts";
import { bytesOf, pasted } from "../src/terminal/keys.ts";
import { Screen } from "../src/terminal/screen.ts";
import { cssColour, RGB } from "../src/terminal/style.ts";
import { averageOf, barsIn, heldOver, hoursOf, marksOf, pathOf, seriesOf, sidesOf, unitOf } from "../src/timeline.ts";
import { fromLocal, localText, markText, movedBy, windowOf } from "../src/window.ts";
import { askedOf, coresOf, deviceUseOf, nextUse, POINTS_MAX, type Use } from "../src/use.ts";
import { addressOf, asked as askedChanges, changesOf, NONE, unfinishedChanges, whatIfLine } from "../src/whatif.ts";
import type { BookingBody, BookingEvictionView, DeploymentView, FleetView, TimelineView, DeploymentWhyView, EvictionView, HistoryLine, KernelUseView, QueueBody, QueueShareView, ReplicaView, RouteEndpointView, SessionSpecView, SessionView, VictimView } from "../src/wire.ts";

const encoder = new TextEncoder();

test("a booking says when it is, which agents it has, for whom, and what becomes of sessions", () => {
  const one: BookingBody = { name: "demo", starts_at: "2030-01-31T18:00:00Z", ends_at: "2030-01-31T20:00:00Z", agents: ["a", "b"], users: ["ana"], queues: ["prod"] };
  const at = (text: string) => whenText(one, Date.parse(text));
  assert.equal(at("2030-01-31T16:30:00Z"), "begins in 1h 30m");
  assert.equal(at("2030-01-31T18:00:00Z"), "now, ends in 2h");
  assert.equal(at("2030-01-31T20:00:00Z"), "over");
  assert.equal(agentsText(one), "a, b");
  assert.equal(agentsText({ ...one, agents: ["a", "b", "c", "d"] }), "a, b, c, d");
  assert.equal(agentsText({ ...one, agents: ["a", "b", "c", "d", "e"] }), "a, b, c and 2 more");
  assert.equal(agentsText({ ...one, agents: [], hypernode: "rack1" }), "all of rack1");
  assert.equal(ownersText(one), "user ana, queue prod");
  const leaves: BookingEvictionView = {
    session: "s", name: "", user: "ana", kernels: 1, whole: false, notice_at: "", ends_by: "", then: "shrink", evicted: false, ended_at: null, lost_slot_s: null,
  };
  assert.deepEqual([partText(leaves), afterwards(leaves)], ["1 kernel", "goes on with fewer kernels"]);
  assert.deepEqual([partText({ ...leaves, whole: true }), afterwards({ ...leaves, then: "requeue" }), afterwards({ ...leaves, then: "end" })], ["all", "waits again", "ends"]);
});

test("a session that would be evicted has a name, an id, or is that of another user", () => {
  const one: VictimView = { session: "s-1", action: "reclaim", kernels: 1, whole: true, lost_slot_s: 0, name: "train", rule: "share", cost: null, next_best: null };
  assert.deepEqual([victimText(one), victimText({ ...one, name: "" }), victimText({ ...one, name: "", session: "" })], ["train", "s-1", "a session of another user"]);
});

test("a verdict says what to do in words, and nothing if there is nothing to do", () => {
  assert.deepEqual(["WAIT", "CHANGE", "ASK_ADMIN", "NOTHING", ""].map(adviceText), ["wait", "change the request", "ask an administrator", "", ""]);
});

test("a mark of an axis is a time of the day, or a day if the axis is longer", () => {
  const midnight = new Date(2030, 0, 31).getTime();
  assert.deepEqual([markText(midnight, 86_400_000), markText(midnight, 86_400_001)], ["00:00", "01-31"]);
  assert.equal(markText(midnight + 6 * 3_600_000, 604_800_000), "06:00");
});

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
  const draft = { ...EMPTY, command: "python t.py", size: "4", gpus: "8", topology: "hard:rack", name: "ddp", where: "nvme exists" };
  assert.deepEqual(bodyOf(draft), {
    command: ["python", "t.py"], resources: { cpu: "1", mem: "1GiB", "cuda.device": "8" }, size: 4, name: "ddp", topology: "hard:rack",
    where: ["nvme exists"],
  });
  assert.equal(
    commandLine(draft),
    "sokovan run --name ddp --size 4 --cpus 1 --mem 1GiB --gpus 8 --topology hard:rack --where 'nvme exists' -- python t.py",
  );
});

test("a form with an amount that is not typed to its end is not planned", () => {
  const typed = (changes: Partial<typeof EMPTY>) => unfinished({ ...EMPTY, ...changes });
  for (const mem of ["1", "1G", "1.5Gi", "512MiB", "7B", ""]) assert.equal(typed({ mem }), "");
  for (const mem of ["1.", "G", "1 G", "1GBi", "-1"]) assert.match(typed({ mem }), /^Memory of each is no amount yet/);
  assert.deepEqual([typed({ cpus: "500m" }), typed({ gpus: "8" })], ["", ""]);
  assert.match(typed({ cpus: "0," }), /^CPU of each/);
  assert.match(typed({ gpus: "x" }), /^GPU of each/);
});

test("a number that is none is refused, not read as another one", () => {
  for (const size of ["abc", "0", "-3", "2.7", "1e3", "0x10"]) assert.equal(unfinished({ ...EMPTY, size }), "Kernels must be a whole number, 1 or more.");
  for (const size of ["", " 4 ", "1000"]) assert.equal(unfinished({ ...EMPTY, size }), "");
  const served = (changes: Partial<typeof SERVED>) => unfinishedServed({ ...SERVED, ...changes });
  assert.deepEqual([served({}), served({ replicas: "0" }), served({ replicas: "" }), served({ replicas: "2", most: "4" })], ["", "", "", ""]);
  assert.equal(served({ replicas: "two" }), "Replicas must be a whole number, 0 or more.");
  assert.equal(served({ most: "0" }), "Most replicas must be a whole number, 1 or more.");
  assert.equal(served({ replicas: "3", most: "2" }), "Most replicas is less than Replicas.");
  assert.match(served({ mem: "lots" }), /^Memory of each/);
  assert.deepEqual([deploymentFrom({ ...SERVED, replicas: "" }).replicas_min, serveLine({ ...SERVED, replicas: "" }).join(" ")], [1, "sokovan serve toy"]);
});

test("a command with a quote that is not closed is refused", () => {
  assert.equal(unfinished({ ...EMPTY, command: "echo 'x" }), "Command: a quote is not closed.");
  assert.equal(unfinished({ ...EMPTY, command: `echo 'x' "it's"` }), "");
  assert.equal(unfinishedServed({ ...SERVED, arguments: '"' }), "Arguments of the engine: a quote is not closed.");
});

test("a problem says each thing once", () => {
  const problems = [{ where: "name", problem: "is bad" }, { where: "size", problem: "is 0" }];
  assert.deepEqual(problemLines({ detail: "the request is invalid: name: is bad; size: is 0", problems }), ["the request is invalid", problems]);
  assert.deepEqual(problemLines({ detail: "session: name = 'x': is bad", problems }), ["session: name = 'x': is bad", problems.slice(1)]);
});

test("changes to try out that make no sense are named", () => {
  const typed = (changes: Partial<typeof NONE>) => unfinishedChanges({ ...NONE, ...changes });
  assert.deepEqual([typed({}), typed({ like: "a1", count: "2" }), typed({ weights: [["q", ""]] })], ["", "", ""]);
  assert.equal(typed({ weights: [["q", "-1"]] }), "Weight of q must be a whole number, 1 or more.");
  assert.equal(typed({ like: "a1" }), "Say how many machines to add.");
  assert.equal(typed({ count: "2" }), "Name an agent that the new machines are like.");
});

test("events are read however the bytes are cut", () => {
  const bytes = encoder.encode(': connected\nid: p.7\n\nid: p.8\nevent: change\ndata: {"id":"ä"}\n\nevent: resync\ndata: {}\n\n');
  for (const size of [1, 3, 1000]) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < bytes.length; at += size) found.push(...reader.push(bytes.slice(at, at + size)));
    assert.deepEqual(found, [{ event: "change", data: '{"id":"ä"}' }, { event: "resync", data: "{}" }]);
    assert.equal(reader.place, "p.8");
  }
});

function line(subject: string, after: string, at: number): HistoryLine {
  return {
    subject, after, before: null, sequence: 0, trigger: "", who: "", code: "", detail: "", times: 1,
    at: new Date(at).toISOString(), last_at: "",
  };
}

test("lanes have a span for each state, and the last one goes on", () => {
  const of = (id: string, status: string, since: number) => ({ id, status, since: new Date(since).toISOString() });
  const lines = [line("s", "pending", 0), line("k", "pending", 0), line("other", "pending", 0), line("k", "running", 2000), line("k", "terminated", 5000)];
  const lanes = lanesOf([of("s", "pending", 0), of("k", "running", 2000)], lines, 9000);
  assert.deepEqual(lanes.map((one) => one.subject), ["s", "k"]);
  assert.deepEqual(lanes[0]?.spans, [{ status: "pending", from: 0, to: 9000 }]);
  assert.deepEqual(lanes[1]?.spans.map((one) => one.to - one.from), [2000, 3000, 0]);
  assert.deepEqual(extent(lanes), [0, 9000]);
  // Without the end of its history a kernel is in the state that it is in now.
  const [, cut, unread] = lanesOf([of("s", "pending", 0), of("k", "running", 2000), of("l", "pulling", 1000)], lines.slice(0, 2), 9000);
  assert.deepEqual(cut?.spans, [{ status: "pending", from: 0, to: 2000 }, { status: "running", from: 2000, to: 9000 }]);
  assert.deepEqual(unread?.spans, [{ status: "pulling", from: 1000, to: 9000 }]);
});

test("a session says what it waited for, how often it was started, and what evictions cost", () => {
  const view = { labels: { team: "nlp", spot: "" }, gates: [], time_limit_s: 7200, attempt: 2, retry: { attempts: 3 }, failed_starts: [{}] } as unknown as SessionView;
  assert.deepEqual(rareFacts(view), [["labels", "team=nlp, spot"], ["time limit", "2h"], ["attempt", "2 of 3"]]);
  assert.deepEqual(rareFacts({ ...view, labels: {}, time_limit_s: null, attempt: 1, failed_starts: [] }), []);
  const eviction = { for_name: "urgent", for_session: "s-9", whole: false, kernels: 2, completed: false, saves_every_s: null, reported: true, step: 400, lost_slot_s: 40, ended_at: "x" } as EvictionView;
  assert.equal(evictionText(eviction), "for urgent: 2 kernels; 40 slot seconds since its last checkpoint (step 400): lost");
  assert.equal(evictionText({ ...eviction, for_name: "", for_session: "", whole: true, reported: false, step: null, ended_at: null }), "for a session of another user: all kernels; 40 slot seconds since its start (no checkpoint was reported): at stake");
  assert.equal(evictionText({ ...eviction, completed: true }), "for urgent: 2 kernels; it had ended by itself before, nothing was lost");
  assert.equal(timeTo(new Date(61_000).toISOString(), 1000), "in 1m");
  assert.equal(timeTo(new Date(500).toISOString(), 1000), "");
});

test("a list that grows is read to its end once, and then from near its end", async () => {
  const entries = Array.from({ length: 35 }, (_, at) => at);
  const asked: string[] = [];
  const page = async (cursor: string) => {
    asked.push(cursor);
    const next = Number(cursor) + 10;
    return { items: entries.slice(Number(cursor), next), next: next < entries.length ? String(next) : null };
  };
  const list = new GrowingList<number>();
  assert.deepEqual(await list.read(page, 9), entries);
  assert.deepEqual(asked.splice(0), ["", "10", "20", "30"]);
  for (let at = 35; at < 52; at += 1) entries.push(at);
  assert.deepEqual(await list.read(page, 9), entries);
  assert.deepEqual(asked.splice(0), ["20", "30", "40", "50"]);
  assert.equal((await new GrowingList<number>().read(page, 3)).length, 30);
  await assert.rejects(list.read(() => Promise.reject(new Error("broken off")), 9));
  assert.deepEqual(await list.read(page, 9), entries);
});

const FLEET: FleetView = {
  as_of: "", hypernodes: ["r2", "r1"], holders: [{ id: "s-1", name: "train", user: "ada", queue: "q" }],
  agents: ["a1", "a2", "b1", "c1"], status: ["alive", "alive", "draining", "alive"], connected: [true, true, true, false],
  kernels: [1, 0, 1, 0], hypernode: [1, 1, 0, -1],
  device: ["0", "1", "0", "0"], device_agent: [0, 0, 1, 2], device_slot: ["gpu", "gpu", "gpu", "gpu"],
  device_units: [1, 1, 1, 1], device_used: [1, 0, 0, 1], device_holder: [0, -1, -1, -2],
  device_fault: ["", "", "", ""],
};

test("agents are laid out by HyperNode, and found again by place and by key", () => {
  const plan = layout(agentsOf(FLEET), FLEET, 1000);
  assert.deepEqual(plan.blocks.map((one) => [one.name, one.used, one.total]), [["r1", 1, 3], ["r2", 1, 1], ["in no HyperNode", 0, 0]]);
  assert.deepEqual(plan.blocks.map((one) => one.open), [2, 0, 0]);
  const [first, second, third] = plan.tiles;
  assert.ok(first && second && third);
  assert.deepEqual(spotAt(plan, second.x + 1, second.y + 1), { tile: 1, cell: 0 });
  assert.deepEqual(spotAt(plan, first.x + ZOOMS[0] + 3, first.y + 3), { tile: 0, cell: 1 });
  assert.equal(spotAt(plan, -1, -1), null);
});

test("arrow keys reach every device, and stop at the ends", () => {
  const fleet = { ...FLEET, device: Array.from({ length: 24 }, (_, at) => `gpu${at}`), device_agent: [...Array<number>(10).fill(0), ...Array<number>(4).fill(1), ...Array<number>(10).fill(2)] };
  const plan = layout(agentsOf(fleet), fleet, 1000);
  const walk = (keys: string[], from: { tile: number; cell: number } | null = null) => keys.reduce((spot, key) => nextSpot(plan, spot, `Arrow${key}`), from);
  assert.deepEqual(walk(["Right"]), { tile: 0, cell: 0 });
  assert.deepEqual(walk(["Right", "Right", "Down"]), { tile: 0, cell: 9 });
  assert.deepEqual(walk(["Right", "Down", "Right", "Right"]), { tile: 1, cell: 0 });
  assert.deepEqual(walk(["Left"], { tile: 1, cell: 0 }), { tile: 0, cell: 9 });
  assert.deepEqual(walk(["Left"], { tile: 0, cell: 0 }), { tile: 0, cell: 0 });
  assert.deepEqual(walk(["Down"], { tile: 0, cell: 9 }), { tile: 2, cell: 1 });
  assert.deepEqual(walk(["Up"], { tile: 2, cell: 1 }), { tile: 0, cell: 9 });
  assert.deepEqual(walk(["Down", "Down", "Down", "Down"], { tile: 0, cell: 0 }), { tile: 3, cell: 0 });
  const seen = new Set<string>();
  for (let spot = walk(["Right"]), last = ""; spot && JSON.stringify(spot) !== last; spot = nextSpot(plan, spot, "ArrowRight")) seen.add((last = JSON.stringify(spot)));
  assert.equal(seen.size, 25);
  const [x, y] = cellAt(plan, { tile: 2, cell: 9 });
  assert.deepEqual(spotAt(plan, x + 1, y + 1), { tile: 2, cell: 9 });
});

test("HyperNodes above others are named once, without one that is above all", () => {
  const fleet = { ...FLEET, hypernodes: ["r2", "r1", "z1", "z2", "<root>"], hypernode_parent: [3, 2, 4, 4, -1] };
  assert.deepEqual(layout(agentsOf(fleet), fleet, 1000).blocks.map((one) => [one.above, one.name]), [["z1", "r1"], ["z2", "r2"], ["", "in no HyperNode"]]);
  const circle = { ...FLEET, hypernode_parent: [1, 0] };
  assert.equal(layout(agentsOf(circle), circle, 1000).tiles.length, 4);
});

test("devices are coloured by state, use, memory, owner and queue, with a legend that counts them", () => {
  const holders = Array.from({ length: 9 }, (_, at) => ({ id: `s-${at}`, name: "", user: `u${at}`, queue: at < 5 ? "low" : "high" }));
  const fleet = {
    ...FLEET, holders, device: Array.from({ length: 12 }, (_, at) => `gpu${at}`), device_used: [...Array<number>(11).fill(1), 0],
    device_holder: [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, -2, -1], device_use: [0, 19, 20, 100, -1, -1, 5, 5, 5, 5, 5, 5], device_memory: [],
  };
  const legend = (mode: string) => shading(fleet, modeOf(mode)).legend.map((one) => [one.label, one.devices]);
  assert.deepEqual(legend("anything"), [["in use", 11], ["free", 1]]);
  assert.deepEqual(legend("use"), [["0 to 19 %", 8], ["20 to 39 %", 1], ["80 to 100 %", 1], ["not measured", 2]]);
  assert.deepEqual(legend("memory"), [["not measured", 12]]);
  assert.deepEqual(legend("queue"), [["low", 6], ["high", 4], ["sessions of others", 1], ["free", 1]]);
  assert.deepEqual(legend("owner"), [["u0", 2], ["u1", 1], ["u2", 1], ["u3", 1], ["u4", 1], ["u5", 1], ["3 others", 3], ["sessions of others", 1], ["free", 1]]);
  const { shadeOf } = shading(fleet, "owner");
  assert.deepEqual([0, 1, 9, 10, 11].map((device) => shadeOf(device).letter), ["a", "a", "+", "*", ""]);
  assert.deepEqual([0, 19, 20, 99, 100].map(stepOf), [0, 0, 1, 4, 4]);
});

test("sessions are sorted by a column, equal ones stay the newest first", () => {
  const rows = [["b", 2, "2"], ["a10", 2, "1"], ["a9", 8, "0"]].map(([name, size, at]) => ({ id: name, name, size, submitted_at: at, reason: null }) as SessionRow);
  const names = (text: string) => sorted(rows, sortOf(text)).map((row) => row.name);
  assert.deepEqual(names(""), ["b", "a10", "a9"]);
  assert.deepEqual(names("name"), ["a9", "a10", "b"]);
  assert.deepEqual(names("-kernels"), ["a9", "b", "a10"]);
  assert.deepEqual(names("age"), ["a9", "a10", "b"]);
  assert.deepEqual(names("constructor"), names(""));
  assert.deepEqual([sortAfter(sortOf(""), "name"), sortAfter(sortOf("name"), "name"), sortAfter(sortOf(""), "age"), sortAfter(sortOf("age"), "age"), sortAfter(sortOf(""), "gpu")], ["name", "-name", "age", "", "-gpu"]);
});

test("a part of a long list is shown in the server's order, as far as that is read", () => {
  const rows = [["a10", 2, "1"], ["b", 2, "2"], ["a9", 8, "0"], ["", 1, "3"]].map(([name, size, at]) => ({ id: `s-${at}`, name, size, submitted_at: at, reason: null }) as SessionRow);
  const names = (text: string, ...ends: number[]) => sortedUntil(rows, sortOf(text), ends.map((at) => rows[at] as SessionRow)).map((row) => row.name || row.id);
  assert.deepEqual(names("name"), ["a10", "a9", "b", "s-3"]);
  assert.deepEqual(names("name", 2), ["a10", "a9"]);
  assert.deepEqual(names("-kernels", 1, 0), ["a9", "b"]);
  assert.deepEqual(names("kernels", 1), ["s-3", "b"]);
  assert.deepEqual(["", "age", "-gpu", "state", "reason"].map((text) => sortParameter(sortOf(text))), ["", "oldest", "-gpus", "status", "reason"]);
  assert.deepEqual(searchesFor("ada", "pending", "-gpus"), ["q=ada&status=pending&sort=-gpus"]);
  assert.deepEqual(searchesFor("", "", "name"), ["sort=name"]);
});

test("a new scaling group is what its form shows, and a changed one keeps what it does not show", () => {
  const kind = KINDS.find((one) => one.path === "scaling-groups");
  assert.ok(kind);
  const made = bodyFrom(kind, null, "batch", { scheduler: "drf" });
  assert.deepEqual([made["name"], made["scheduler"], made["public"], made["isolated_network"], made["idle_timeout_s"]], ["batch", "drf", true, false, null]);
  const changed = bodyFrom(kind, { name: "batch", mount_roots: ["/data"], public: true }, "batch", { public: "no", lifetime_max_s: "60" });
  assert.deepEqual([changed["public"], changed["lifetime_max_s"], changed["mount_roots"]], [false, 60, ["/data"]]);
});

test("limits stand beside what is held, the nearest to its limit first", () => {
  const owner = (kind: string, name: string, used: number, sessions_max: number | null) => ({ kind, name, policy: "small", limits: { "cuda.device": 8 }, used: { "cuda.device": used }, sessions: 3, sessions_max });
  const rows = limitRows([owner("user", "ada", 2, null), owner("group", "lab", 4, 3)]);
  assert.deepEqual(rows.map((row) => [row.kind, row.name, row.slot, row.used, row.limit]), [["group", "lab", null, 3, 3], ["group", "lab", "cuda.device", 4, 8], ["user", "ada", "cuda.device", 2, 8]]);
  assert.deepEqual(limitRows([{ ...owner("user", "eva", 0, null), used: {} }]).map((row) => row.used), [0]);
});

test("devices with the same time share a lane, and others have their own", () => {
  const at = (second: number) => new Date(second * 1000).toISOString();
  const hold = (device: string, since: number, until: number | null, name = "ddp") => ({ agent: "a1", device, units: 1, since: at(since), until: until === null ? null : at(until), session: name ? "s-1" : "", name, user: name ? "ada" : "", queue: "" });
  const view: TimelineView = {
    since: at(0), until: at(100), agents: ["a1", "a2"], devices: { a1: ["g0", "g1", "g2", "g3"], a2: [] }, cut: false, next: null,
    holds: [hold("g0", 10, 20), hold("g1", 10, 20), hold("g2", 50, null, "")],
    closed: [{ agent: "a1", status: "draining", since: at(60), until: null }],
    bookings: [{ name: "b", kind: "booking", starts_at: at(80), ends_at: at(90), agents: ["a1"] }],
    kept: [{ agent: "a1", kernels: 1, starts_at: at(95), session: "", name: "", user: "" }, { agent: "a1", kernels: 1, starts_at: null, session: "s-2", name: "next", user: "ada" }],
  };
  const lanes = deviceLanes(view);
  assert.deepEqual(lanes.map((lane) => devicesText(lane.devices)), ["2: g0 to g1", "g2", "g3"]);
  assert.deepEqual(lanes[1]?.pieces.map((piece) => [piece.kind, piece.from, piece.to, piece.session]), [["held", 50_000, 100_000, ""], ["closed", 60_000, 100_000, ""], ["booked", 80_000, 90_000, ""], ["kept", 95_000, 100_000, ""]]);
  assert.deepEqual(lanes[0]?.pieces[0], { kind: "held", from: 10_000, to: 20_000, text: "ddp of ada", session: "s-1" });
});

test("brief sessions side by side share a target, and none is too small or over another one", () => {
  const width = 1000;
  const share = (at: number) => Math.min(1, Math.max(0, at / width));
  const held = (name: string, from: number, to: number): Piece => ({ kind: "held", from, to, text: name, session: name });
  const targets = (...pieces: Piece[]) => {
    const found = targetsOf(pieces, share, width).map((one) => ({ from: one.from * width, to: one.to * width, names: one.pieces.map((piece) => piece.text).join("") }));
    found.forEach((one, at) => {
      assert.ok(one.to - one.from >= TARGET_PX - 1e-6 && one.from >= 0 && one.to <= width, `${one.names} is large enough`);
      assert.ok((found[at + 1]?.from ?? width) >= one.to - 1e-6, `${one.names} is over no other`);
    });
    return found.map((one) => one.names);
  };
  assert.deepEqual(targets(held("a", 100, 102), held("b", 103, 105), held("c", 200, 201)), ["ab", "c"]);
  assert.deepEqual(targets(held("a", 0, 1), held("b", 999, 1000)), ["a", "b"]);
  // Two of them take no more room than one.
  assert.deepEqual(targets(...[0, 20, 40, 60].map((at) => held(`${at} `, at, at + 1))), ["0 20 ", "40 60 "]);
  // Long ones give their edge away, as long as they are large enough.
  assert.deepEqual(targets(held("a", 0, 300), held("b", 300, 302), held("c", 302, 600)), ["a", "b", "c"]);
  assert.deepEqual(targets(held("a", 0, 30), held("b", 30, 32)), ["ab"]);
  // At the same time, on parts of a device.
  assert.deepEqual(targets(held("a", 0, 300), held("b", 200, 500)), ["ab"]);
  assert.deepEqual(targets({ ...held("a", 0, 300), session: "" }, held("b", 500, 500)), ["b"]);
  for (let at = 1; at < 40; at += 1) targets(...[0, 1, 2, 3, 4].map((step) => held(String(step), step * at, step * at + (step % 2 ? 2 : at))));
});

test("an address asks for changes to try out", () => {
  const asked = askedChanges(new URLSearchParams("weight=a%3Db%3D5&weight=bad&drain=n1&drain=n2"));
  assert.deepEqual(changesOf(asked), { drain: ["n1", "n2"], weights: { "a=b": 5 }, add: {} });
  assert.equal(addressOf(asked), "?drain=n1&drain=n2&weight=a%3Db%3D5");
  const all = { drain: "n1, n2", like: "n3", count: "4", weights: [["q", "2"], ["emptied", ""]] as const, group: "gpu" };
  assert.deepEqual(askedChanges(new URLSearchParams(addressOf(all))), { ...all, weights: [["q", "2"]] });
  assert.equal(addressOf(NONE), "");
  assert.equal(whatIfLine(changesOf(all)).join(" "), "sokovan what-if --drain n1 --drain n2 --weight q=2 --add n3=4 --scaling-group gpu");
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

const NOON = Date.parse("2026-02-01T12:00:00Z");
const LAST_HOUR = windowOf(new URLSearchParams(), NOON);

test("a timeline shows the last span, or a time between two of the address", () => {
  const asked = (text: string) => windowOf(new URLSearchParams(text), NOON);
  assert.deepEqual(LAST_HOUR, { from: NOON - 3_600_000, to: NOON, live: true, span: "1h", problem: "" });
  assert.deepEqual(asked("span=nonsense"), LAST_HOUR);
  const past = asked("from=2026-01-31T08:00:00Z&to=2026-01-31T14:00:00Z");
  assert.deepEqual([past.live, past.span, (past.to - past.from) / 3_600_000], [false, "6h", 6]);
  assert.equal(asked("to=2026-01-31T14:00:00Z&span=24h").from, Date.parse("2026-01-30T14:00:00Z"));
  assert.equal(asked("from=2026-02-01T11:30:00Z").to, NOON);
  for (const wrong of ["from=abc", "from=2026-02-02T00:00:00Z", "to=-1", "from=2026-01-31T08:00:00Z&to=2026-01-31T08:00:00Z", "to=1970-01-01T00:10:00Z"]) {
    assert.deepEqual([asked(wrong).problem === "", asked(wrong).live], [false, true], wrong);
  }
});

test("a timeline moves by its length, and is live again when it reaches now", () => {
  const asked = (changes: Record<string, string>) => windowOf(new URLSearchParams(changes), NOON);
  const before = movedBy(LAST_HOUR, -1, NOON);
  assert.deepEqual([before["from"], before["to"]], ["2026-02-01T10:00:00Z", "2026-02-01T11:00:00Z"]);
  assert.equal(movedBy(asked(before), -1, NOON)["to"], "2026-02-01T10:00:00Z");
  assert.deepEqual(movedBy(asked(before), 1, NOON), { span: "1h", from: "", to: "", cursor: "" });
  const odd = asked({ from: "2026-02-01T11:00:00Z", to: "2026-02-01T11:50:00Z" });
  assert.equal(movedBy(odd, 1, NOON)["to"], "2026-02-01T12:40:00Z");
  assert.equal(movedBy(asked({ from: "1970-01-01T00:30:00Z", to: "1970-01-01T01:30:00Z" }), -1, NOON)["from"], "1970-01-01T00:00:00Z");
  assert.equal(fromLocal(localText(NOON)), "2026-02-01T12:00:00Z");
  assert.equal(fromLocal(""), "");
});

test("the command of a list prints what the list shows", () => {
  assert.equal(listCommand("", "", sortOf("")), "sokovan ps --all --no-limit");
  assert.equal(listCommand("running", " ada bert", sortOf("-gpu")), "sokovan ps --no-limit --sort -gpus --status running --search 'ada bert'");
  const waits = { reason: "QUOTA_USER" } as SessionRow;
  assert.equal(listCommand("", "QUOTA_USER", sortOf(""), [waits]), "sokovan ps --all --no-limit --reason QUOTA_USER");
  assert.match(listCommand("", "QUOTA_USER", sortOf(""), [waits, { reason: null } as SessionRow]), / --search QUOTA_USER$/);
  const ended = new URLSearchParams({ view: "", name: "it's", user: "ada", label: "team=a", cursor: "x" });
  assert.equal(endedCommand(ended), "sokovan ps --status ENDED --user ada --name 'it'\\''s' --label team=a");
  assert.equal(endedCommand(new URLSearchParams({ status: "cancelled" })), "sokovan ps --status cancelled");
  assert.equal(timelineCommand(new URLSearchParams({ q: "ada train", agent: "a1" }), LAST_HOUR), "sokovan timeline --last 1h --search 'ada train'");
  assert.equal(timelineCommand(new URLSearchParams({ view: "devices", q: "ada", agent: "a1" }), windowOf(new URLSearchParams("span=6h"), NOON)), "sokovan agent timeline a1 --last 6h");
  const past = windowOf(new URLSearchParams("from=2026-01-31T08:00:00Z&to=2026-01-31T09:30:00Z"), NOON);
  assert.equal(timelineCommand(new URLSearchParams(), past), "sokovan timeline --from 2026-01-31T08:00:00Z --to 2026-01-31T09:30:00Z");
  assert.equal(commandLine(EMPTY), "sokovan run --cpus 1 --mem 1GiB -- COMMAND");
});

test("selected sessions that have not ended are stopped by one command, those that wait first", () => {
  const row = (id: string, status: string, name = id): SessionRow => ({ id, name, status }) as SessionRow;
  const rows = [row("1", "running", "same"), row("2", "terminated"), row("3", "pending", "it's"), row("4", "running", "same"), row("5", "running")];
  const chosen = stoppable(rows, new Set(["1", "2", "3", "4"]));
  assert.deepEqual(chosen.map((one) => one.id), ["3", "1", "4"]);
  assert.equal(stopCommand(chosen), "sokovan stop 'it'\\''s' 1 4");
  assert.equal(stopCommand(Array.from({ length: 201 }, (_, index) => row(`s${index}`, "running"))), "");
  const item = (status: string | null, detail = "") => ({ id: "1", name: "a", status, problem: detail ? { type: "", title: "", status: 404, detail, code: "", hint: "", request_id: "", problems: [] } : null });
  assert.equal(summaryOf([item("terminating"), item("cancelled"), item(null, "no such session")]), "1 session will end. 1 session has ended. 1 session was refused.");
});

test("queues are bars below their parents, and who borrows from whom is named", () => {
  const queues = [{ name: "b", parent: "root" }, { name: "root" }, { name: "a", parent: "root" }] as QueueBody[];
  const share = (queue: string, allocated: number, deserved: number, waiting: number, borrowed: number): QueueShareView =>
    ({ queue, scaling_group: "default", slot: "gpu", allocated, borrowed, waiting, guarantee: 0, limit: 0, deserved });
  const bars = barsOf(queues, [share("a", 2, 4, 3, 0), share("b", 6, 4, 0, 2)], "gpu");
  assert.deepEqual(bars.map((one) => [one.queue, one.depth]), [["root", 0], ["a", 1], ["b", 1]]);
  assert.equal(scaleOf(bars), 6);
  assert.deepEqual(loansOf(bars), [{ from: "a", to: "b", most: 2, waiting: 3, reclaimable: true }]);
  // One that does not wait comes last; what is above others and what has all of its share lends nothing.
  const more = [...queues, { name: "c", parent: "root", reclaimable: false }, { name: "d" }, { name: "e" }] as QueueBody[];
  const shares = [share("root", 8, 12, 3, 0), share("a", 2, 3, 3, 0), share("b", 6, 4, 0, 2), share("c", 5, 1, 0, 4), share("d", 0, 9, 0, 0), share("e", 4, 4, 2, 0)];
  const loans = loansOf(barsOf(more, shares, "gpu")).map((one) => `${one.to} ${one.from} ${one.most} ${one.waiting} ${one.reclaimable}`);
  assert.deepEqual(loans, ["b a 1 3 true", "c a 1 3 false", "c d 4 0 false", "b d 2 0 true"]);
});

test("a drain takes the free devices of an agent away", () => {
  const [first] = agentsOf(FLEET);
  assert.ok(first);
  // Of the other agents one is draining, so that only the device of a2 stays open.
  assert.deepEqual(impactOf(first, FLEET), { free: 1, left: 1, total: 4 });
});

test("a faulty device is named, and a drain does not count it as free", () => {
  const fleet = { ...FLEET, device_fault: ["", "2 memory errors", "lost", ""] };
  const [first] = agentsOf(fleet);
  assert.ok(first);
  assert.deepEqual(faultsOf(first, fleet), [{ device: "1", fault: "2 memory errors" }]);
  assert.deepEqual(impactOf(first, fleet), { free: 0, left: 0, total: 4 });
});

test("agents that an operator should look at are named with the reason", () => {
  const fleet: FleetView = { ...FLEET, device_fault: ["", "2 memory errors", "", ""], failing: { a2: "3 starts failed" } };
  assert.deepEqual(needingAttention(fleet).map((one) => [one.name, one.problem, one.faults]), [
    ["a1", "", [["1", "2 memory errors"]]], ["a2", "3 starts failed", []], ["c1", "not connected", []],
  ]);
});

function row(name: string, submitted: number, began: number | null, ended: number | null, held: number): SessionRow {
  const text = (at: number | null) => (at === null ? null : new Date(at).toISOString());
  return {
    id: name, name, status: ended === null ? (began === null ? "pending" : "running") : "terminated", result: null, user: "u", queue: "q", size: 1,
    devices: held, agents: 1, submitted_at: text(submitted) ?? "", since: text(ended ?? began ?? submitted) ?? "", scheduled_at: text(began),
    ended_at: text(ended), reason: null, detail: null,
  };
}

test("devices over time are the sum of what sessions hold", () => {
  const rows = [row("a", 0, 1000, 5000, 4), row("b", 0, 3000, null, 2), row("c", 0, null, null, 8), row("old", 0, 10, 500, 8)];
  const steps = heldOver(rows, 600, 9000);
  assert.deepEqual(steps, [{ at: 600, devices: 0 }, { at: 1000, devices: 4 }, { at: 3000, devices: 6 }, { at: 5000, devices: 2 }]);
  assert.equal(averageOf(steps, 9000), (4 * 2000 + 6 * 2000 + 2 * 4000) / 8400);
  assert.deepEqual([averageOf([{ at: 5, devices: 78 }], 5), averageOf([], 5)], [78, 0]);
  assert.equal(pathOf(steps, 600, 9000, 6, 84, 6), "M0.0 6.0H4.0V2.0H24.0V0.0H44.0V4.0H84.0");
  assert.deepEqual(barsIn(rows, 600, 9000).map((bar) => [bar.row.name, bar.began, bar.ended]), [["a", 1000, 5000], ["b", 3000, null], ["c", null, null]]);
  assert.deepEqual(marksOf(0, 240_000), [0, 60_000, 120_000, 180_000, 240_000]);
});

test("the text of a mark is not cut, not across now and not on another one", () => {
  assert.deepEqual(marksOf(0, 990_000, 2), [0, 600_000]);
  // Half past five in India is midnight of UTC.
  const hour = 3_600_000;
  assert.deepEqual(marksOf(5.2 * hour, 24 * hour, 4, 5.5 * hour), [6.5, 12.5, 18.5].map((at) => at * hour));
  assert.deepEqual(sidesOf([10, 40, 70], 0, 100, 90, 15), ["after", "after", "after"]);
  assert.deepEqual(sidesOf([40, 80], 0, 100, 90, 15), ["after", "before"]);
  assert.deepEqual(sidesOf([40, 95], 0, 100, 90, 15), ["after", "none"]);
  assert.deepEqual(sidesOf([60, 80], 0, 100, 90, 15), ["after", "none"]);
});

test("the palette finds names by their parts, beginnings first", () => {
  const known = ["sessions", "train-1", "a-train"].map((name) => ({ kind: "session", name, to: name }));
  assert.deepEqual(targetsFor(known, "train").map((one) => one.name), ["train-1", "a-train"]);
  assert.deepEqual(targetsFor(known, "session 1").map((one) => one.name), ["train-1"]);
  assert.deepEqual(targetsFor(known, "nothing"), []);
});

test("a form changes what it shows and keeps the rest", () => {
  const policies = KINDS.find((kind) => kind.path === "policies");
  assert.ok(policies);
  const before = { name: "small", slots_max: { cpu: 4 }, sessions_max: 3, stored_pending_max: 7 };
  const texts = Object.fromEntries(policies.fields.map((field) => [field.name, shown(field, (before as Record<string, unknown>)[field.name])]));
  assert.equal(texts["slots_max"], "cpu=4");
  const body = bodyFrom(policies, before, "small", { ...texts, slots_max: "cpu=8, mem=1GiB", sessions_max: "" });
  assert.deepEqual(body["slots_max"], { cpu: "8", mem: "1GiB" });
  assert.deepEqual([body["sessions_max"], body["stored_pending_max"]], [null, 7]);
  assert.deepEqual(given({ name: "g", label: "", kind: "words" }, "a, b  c"), ["a", "b", "c"]);
});

test("a session is run again with the same request and another name", () => {
  const body = {
    name: "old", type: "interactive", command: ["sh", "-c", "a b"], queue: "q", size: 2, resources: { cpu: "1.5", mem: "1Gi", "tpu.device": 4 }, topology: null,
    where: ["nvme exists", "zone in (a)"], environment: { SEED: "1" }, labels: {}, retry: { attempts: 2, backoff: 5, elsewhere: true },
  } as const;
  const like = { session: "s-1", body, secrets: ["TOKEN"], hidden: [], left_out: [], notes: [] } as unknown as SessionSpecView;
  const draft = draftOf(like);
  assert.deepEqual(draft, {
    command: "sh -c 'a b'", name: "", queue: "q", size: "2", cpus: "1.5", mem: "1Gi", gpus: "", topology: "", where: "nvme exists",
  });
  assert.deepEqual(bodyOf(draft, like.body), { ...body, name: null });
  assert.deepEqual(keptOf(like.body), ["type", "resources", "environment", "retry"]);
  assert.equal(commandLine(draft, like), "sokovan session spec s-1 | sokovan run --secret-env TOKEN -f -");
  const changed = { ...draft, gpus: "2", mem: "", cpus: "0" };
  assert.deepEqual(bodyOf(changed, like.body).resources, { cpu: "0", "tpu.device": 4, "cuda.device": "2" });
  assert.equal(commandLine({ ...draft, name: "new", gpus: "2", command: "true" }, like),
    "sokovan session spec s-1 | sokovan run --name new --gpus 2 --secret-env TOKEN -f - -- true");
  assert.equal(commandLine({ ...draft, where: "" }, like), null);
});

test("a form becomes YAML and a form again", () => {
  const draft = { ...EMPTY, command: "sleep 600", name: "n", size: "4", gpus: "8", where: "nvme exists" };
  const text = textOf(bodyOf(draft));
  assert.match(text, /^command: \[sleep, "600"\]\n/);
  const typed = typedOf(text);
  assert.ok(typed.body);
  assert.deepEqual(formOf(typed.body, null), [draft, null]);
});

test("what a form cannot show is kept from YAML", () => {
  const typed = typedOf("command: [sleep, 600]\nlabels: {team: 7}\nresources: {tpu.device: 2}\nwhere: [a exists, b exists]\n");
  assert.ok(typed.body);
  const [draft, base] = formOf(typed.body, null);
  assert.deepEqual([draft.command, draft.where, base?.session], ["sleep 600", "a exists", ""]);
  assert.deepEqual(bodyOf({ ...draft, gpus: "1" }, base?.body), {
    command: ["sleep", "600"], labels: { team: "7" }, resources: { "tpu.device": 2, "cuda.device": "1" }, where: ["a exists", "b exists"],
    name: null, queue: null, topology: null, size: 1,
  });
});

test("a text that is no request says why", () => {
  assert.equal(typedOf("a: 1\na: 2").problem, "line 2 names a a second time");
  assert.match(typedOf("- a").problem, /a request has fields/);
  assert.match(typedOf("command: hostname").problem, /command is a list/);
  assert.deepEqual(typedOf("").body, {});
});

test("figures of devices are a mean and a sum of what is known", () => {
  const figures = [{ use_percent: 90, memory_used_bytes: 3, memory_bytes: 8, temperature_c: 1 }, { use_percent: 70, memory_used_bytes: null, memory_bytes: null, temperature_c: null }];
  assert.deepEqual(deviceUseOf(figures), { use: 80, memory: 3, total: 8 });
  assert.deepEqual(deviceUseOf([]), { use: null, memory: null, total: 0 });
});

test("a filter asks the server for words, and for a reason that looks like one", () => {
  assert.deepEqual(searchesFor("  ", ""), []);
  assert.deepEqual(searchesFor("  ", "pending"), ["status=pending"]);
  assert.deepEqual(searchesFor("ada tr&in", ""), ["q=ada%20tr%26in"]);
  assert.deepEqual(searchesFor("QUOTA_USER", "pending"), ["q=QUOTA_USER&status=pending", "reason=QUOTA_USER&status=pending"]);
  assert.equal(searchesFor("x".repeat(99), "")[0], `q=${"x".repeat(64)}`);
  const row = (id: string, status: string) => ({ id, status, submitted_at: id }) as unknown as SessionRow;
  assert.deepEqual(merged([row("b", "running")], [row("a", "pending"), row("b", "pending")]), [row("b", "running"), row("a", "pending")]);
});

test("kernel groups of a session are kept as they are when it is run again", () => {
  const groups = [{ name: "workers", size: 3, command: ["w"] }];
  const like = { session: "s-1", body: { groups, queue: "q", where: [] }, secrets: [], hidden: [], left_out: [], notes: [] } as unknown as SessionSpecView;
  const draft = { ...draftOf(like), name: "new", size: "9", cpus: "3" };
  assert.deepEqual(bodyOf(draft, like.body), { groups, queue: "q", where: [], name: "new", topology: null });
  assert.equal(commandLine(draft, like), "sokovan session spec s-1 | sokovan run --name new -f -");
});

function shownAfter(text: string, rows = 4, columns = 10): Screen {
  const screen = new Screen(rows, columns);
  screen.write(text);
  return screen;
}

test("a terminal wraps, scrolls and keeps what has left it", () => {
  const screen = shownAfter("one\r\ntwo\r\n0123456789ab\r\nthree");
  assert.deepEqual(screen.lines.map((line) => line.text()), ["two", "0123456789", "ab", "three"]);
  assert.deepEqual(screen.past.map((line) => line.text()), ["one"]);
  assert.deepEqual([screen.row, screen.column], [3, 5]);
  screen.write("\rTH\b\bt\tx");
  assert.equal(screen.lines[3]?.text(), "tHree   x");
});

test("sequences move the cursor, erase, insert and remove", () => {
  const screen = shownAfter("aaaa\r\nbbbb\r\ncccc\u001b[2;2H\u001b[K\u001b[1;1H\u001b[2P\u001b[@x\u001b[3;1H\u001b[L");
  assert.deepEqual(screen.lines.map((line) => line.text()), ["xaa", "b", "", "cccc"]);
  screen.write("\u001b[2J\u001b[Hdone\u001b[2X\u001b[99;99H!");
  assert.deepEqual(screen.lines.map((line) => line.text()), ["done", "", "", "         !"]);
  screen.write("\u001b[2;3r\u001b[3;1Hin\r\nside\r\nhere\u001b[r");
  assert.deepEqual(screen.lines.map((line) => line.text()), ["done", "side", "here", "         !"]);
});

test("a full-screen program leaves the screen as it was", () => {
  const screen = shownAfter("$ vi\r\n\u001b[?1049h\u001b[H\u001b[2J~ text\u001b[?25l\u001b[?1h");
  assert.equal(screen.lines[0]?.text(), "~ text");
  assert.deepEqual([screen.cursorShown, screen.arrowsAsApplication, screen.isFull], [false, true, true]);
  screen.write("\u001b[?1049l\u001b[?25h\u001b[?1l$ ");
  assert.deepEqual(screen.lines.map((line) => line.text()), ["$ vi", "$", "", ""]);
  assert.deepEqual([screen.cursorShown, screen.isFull], [true, false]);
});

test("colours are styles of runs", () => {
  const screen = shownAfter("a\u001b[1;31mb\u001b[0m\u001b[38;5;208mc\u001b[48;2;1;2;3md\u001b[m");
  const [plain, red, orange, both] = (screen.lines[0]?.runs() ?? []).map((run) => screen.styles.at(run.style));
  assert.equal(plain?.fg, -1);
  assert.deepEqual([red?.fg, red?.bold], [1, true]);
  assert.equal(cssColour(orange?.fg ?? 0), "rgb(255 135 0)");
  assert.equal(both?.bg, RGB + 0x010203);
  assert.equal(cssColour(both?.bg ?? 0), "rgb(1 2 3)");
});

test("wide characters take two columns, and half of one is none", () => {
  const screen = shownAfter("漢字e\u0301\u001b[1;2Hx");
  assert.equal(screen.lines[0]?.text(), " x字e\u0301");
  assert.deepEqual(screen.lines[0]?.runs().slice(0, 3).map((run) => [run.text, run.column, run.wide]), [[" x", 0, false], ["字", 2, true], ["e\u0301", 4, false]]);
  assert.deepEqual(shownAfter("123456789漢").lines.slice(0, 2).map((line) => line.text()), ["123456789", "漢"]);
});

test("hostile output of a program stays inside of its terminal", () => {
  const screen = shownAfter("\u001b]0;title\u0007\u001b]52;c;aGk=\u001b\\\u001bPq#0\u001b\\ok\u202egnp\u0007", 2, 20);
  assert.equal(screen.lines[0]?.text(), "ok\ufffdgnp");
  assert.equal(screen.write("\u001b[6n".repeat(1000)).length, 16 * "\u001b[1;7R".length);
  assert.equal(screen.write("\u001b[5n\u001b[c"), "\u001b[0n\u001b[?1;2c");
  screen.write(`\u001b[${"9".repeat(400)}A\u001b[${"1;".repeat(500)}m\u001b[99999S\u001b[99999L\u001b[99999@\u001b[99999b\u001b[`);
  screen.write("\u0018safe");
  assert.match(screen.text(), /safe$/);
  for (let code = 0; code < 400; code += 1) screen.write(`\u001b[38;2;${code % 256};${code % 7};${code % 11}m.`);
  for (let number = 0; number < 3000; number += 1) screen.write(`line ${number}\r\n`);
  assert.equal(screen.past.length, 1000);
});

test("a terminal of another size keeps the cursor in sight", () => {
  const screen = shownAfter("one\r\ntwo\r\nthree\r\nfour");
  screen.resize(2, 4);
  assert.deepEqual(screen.lines.map((line) => line.text()), ["thre", "four"]);
  assert.deepEqual(screen.past.map((line) => line.text()), ["one", "two"]);
  screen.resize(5, 8);
  screen.write("!");
  assert.deepEqual(screen.lines.map((line) => line.text()), ["thre", "fou!", "", "", ""]);
});

test("keys and pasted text become what programs expect", () => {
  const key = (name: string, held: Partial<Record<"ctrlKey" | "altKey" | "shiftKey" | "metaKey", boolean>> = {}, asApplication = false) =>
    bytesOf({ key: name, ctrlKey: false, altKey: false, shiftKey: false, metaKey: false, ...held }, asApplication);
  assert.equal(key("a"), null);
  assert.equal(key("Enter"), "\r");
  assert.equal(key("c", { ctrlKey: true }), "\u0003");
  assert.equal(key("C", { ctrlKey: true, shiftKey: true }), null);
  assert.equal(key("ArrowUp"), "\u001b[A");
  assert.equal(key("ArrowUp", {}, true), "\u001bOA");
  assert.equal(key("ArrowLeft", { ctrlKey: true }), "\u001b[1;5D");
  assert.equal(key("b", { altKey: true }), "\u001bb");
  assert.equal(key("F5"), "\u001b[15~");
  assert.equal(key("Tab", { shiftKey: true }), "\u001b[Z");
  assert.equal(key("Shift", { shiftKey: true }), null);
  assert.equal(pasted("rm\n\u001b[201~x\ty", true), "\u001b[200~rm\r[201~x\ty\u001b[201~");
});

test("usage over time is a line for each name, the largest first", () => {
  const view = {
    since: "2026-01-01T00:00:00.000Z", until: "2026-01-01T02:00:00.000Z", step_s: 3600, by: "queue", left_out: 0,
    items: [{ name: "b", slot: "cpu", used: [1000, 0] }, { name: "a", slot: "cpu", used: [1000, 500] }, { name: "a", slot: "mem", used: [1, 1] }],
  };
  const lines = seriesOf(view, "cpu");
  assert.deepEqual(lines.map((one) => one.name), ["a", "b"]);
  assert.deepEqual([hoursOf("cpu", lines[0]?.steps ?? [], 3600), unitOf("cpu"), unitOf("cuda.device")], ["1.5", "a core", "a device"]);
  assert.deepEqual(lines[0]?.steps, [{ at: Date.parse(view.since), devices: 1000 }, { at: Date.parse(view.since) + 3_600_000, devices: 500 }]);
});

test("a deployment is a request and the same command line", () => {
  const draft = { ...SERVED, name: "chat", engine: "vllm", model: "a/b", arguments: "--len 8", gpus: "2", replicas: "1", most: "4", queue: "q" };
  assert.deepEqual(deploymentFrom(draft), {
    name: "chat", revision: { engine: "vllm", model: "a/b", arguments: ["--len", "8"], resources: { "cuda.device": "2" } }, access: "private",
    replicas_min: 1, replicas_max: 4, scaling: { metric: "concurrency" }, queue: "q",
  });
  assert.equal(shellWords(serveLine(draft)), "sokovan serve a/b --name chat --engine vllm --gpus 2 --max-replicas 4 --queue q -- --len 8");
  assert.equal(shellWords(serveLine({ ...SERVED, name: "t" })), "sokovan serve toy --name t");
});

test("the number of replicas is fixed, or follows demand between bounds", () => {
  const scaling = { metric: "manual", target: null, down_s: 60 } as const;
  const fixed = { name: "chat", replicas_min: 2, replicas_max: 2, scaling } as DeploymentView;
  const scale = scaleOfDeployment(fixed);
  assert.deepEqual(scale, { least: "2", most: "", metric: "concurrency", target: "" });
  assert.equal(isSame(scale, fixed), true);
  assert.deepEqual(scaleBody({ ...scale, least: "3" }, fixed), { replicas_min: 3, replicas_max: 3, scaling });
  const follows = { ...scale, least: "0", most: "8", metric: "qps", target: "20" } as const;
  assert.deepEqual(scaleBody(follows, fixed), { replicas_min: 0, replicas_max: 8, scaling: { ...scaling, metric: "qps", target: 20 } });
  assert.equal(scaleLine(follows, fixed).join(" "), "sokovan deployment scale chat 0 --max 8 --metric qps --target 20");
  assert.equal(scaleLine({ ...scale, least: "3", most: "3" }, fixed).join(" "), "sokovan deployment scale chat 3");
  assert.deepEqual(["", "x", "9"].map((least) => unfinishedScale({ ...follows, least })), [
    "The number of replicas is missing.", "The number of replicas must be a whole number, 0 or more.", "The most replicas are fewer than the least.",
  ]);
  assert.equal(unfinishedScale({ ...follows, target: "0" }), "The target must be a whole number, 1 or more.");
});

test("the tile of a replica says how its endpoint answers, and turns when it does not", () => {
  const endpoint = { healthy: true, weight: 1, served: 9, outstanding: 3, waiting: 1, answers: 0, failures: 0, failing: false, ejected: 0, ejections: 0 } as RouteEndpointView;
  assert.deepEqual(endpointLines(endpoint), ["answers its checks, weight 1", "3 under way, 1 of them waiting in the engine, 9 served"]);
  assert.deepEqual(endpointLines({ ...endpoint, healthy: false, answers: 5, failures: 2, failing: true, ejected: 1, ejections: 3 }).slice(2), [
    "2 of the last 5 answers failed", "fails again and again, while another replica answers", "left out by 1 gateway for the time being", "left out 3 times so far",
  ]);
  const replica = (status: string) => ({ status }) as ReplicaView;
  assert.deepEqual([tileTone(replica("active"), endpoint), tileTone(replica("warming"), undefined), tileTone(replica("failed"), undefined)], ["good", "wait", "bad"]);
  for (const change of [{ failing: true }, { ejected: 1 }, { healthy: false }]) assert.equal(tileTone(replica("active"), { ...endpoint, ...change }), "bad");
});

test("a replica that failed has a tile until another attempt takes its place", () => {
  const replica = (ordinal: number, attempt: number) => ({ id: `${ordinal}.${attempt}`, revision: 1, ordinal, attempt }) as ReplicaView;
  const why = { replicas: [{ replica: replica(0, 1) }] } as DeploymentWhyView;
  const ids = (...views: ReplicaView[]) => tilesOf(views, why).map((one) => one.id);
  assert.deepEqual([ids(replica(1, 1)), ids(replica(1, 1), replica(0, 2))], [["0.1", "1.1"], ["0.2", "1.1"]]);
});

test("a deployment is asked by curl and by a client of the OpenAI API", () => {
  assert.equal(
    curlLine("http://h/v1/", "it's"),
    `curl -s http://h/v1/chat/completions -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d '{"model":"it'\\''s","messages":[{"role":"user","content":"hello"}]}'`,
  );
  assert.match(curlLine("http://h/v1", "m", "ske_1"), / -H 'Authorization: Bearer ske_1' /);
  assert.match(openAiText("http://h/v1", "m"), /^import os\n[^]*api_key=os\.environ\["KEY"\]\)/);
  assert.match(openAiText("http://h/v1", 'a"b', "ske_1"), /api_key="ske_1"\)\n.*model="a\\"b"/);
});

test("a new revision keeps what its form does not show", () => {
  const revision = { engine: "vllm", model: "a/b", arguments: ["x y"], resources: { cpu: 2000, mem: 2 ** 30, "npu.device": 1 }, environment: { A: "1" }, secrets: { T: null } };
  const view = {
    name: "chat", revision: { number: 1, revision }, replicas_min: 1, replicas_max: 1, access: "private", queue: "default", rollout_policy: { strategy: "canary" },
  } as unknown as DeploymentView;
  const draft = servedOf(view);
  assert.deepEqual([draft.cpus, draft.mem, draft.arguments, draft.strategy], ["2", "1GiB", "'x y'", "canary"]);
  assert.deepEqual(revisionFrom({ ...draft, model: "c", mem: "" }, revision), {
    engine: "vllm", model: "c", arguments: ["x y"], resources: { cpu: "2", "npu.device": 1 }, environment: { A: "1" }, secrets: { T: null },
  });
  assert.equal(shellWords(updateLine(draft)), "sokovan deployment update chat --model a/b --cpus 2 --mem 1GiB --strategy canary -- 'x y'");
});

test("changes to try out are a request and a command line", () => {
  const body = changesOf({ drain: "a1, a2", like: "a3", count: "2", weights: [["q", "3"], ["r", ""]] });
  assert.deepEqual(body, { drain: ["a1", "a2"], weights: { q: 3 }, add: { a3: 2 } });
  assert.equal(whatIfLine(body).join(" "), "sokovan what-if --drain a1 --drain a2 --weight q=3 --add a3=2");
  assert.deepEqual(changesOf(NONE), { drain: [], weights: {}, add: {} });
});

test("measurements of kernels become lines of cores and memory", () => {
  const kernel = (index: number, sampled_ms: number | null, cpu_ms: number | null): KernelUseView => ({
    index, rank: index, status: "running", agent: "a", slots: { cpu: 2000, mem: 100 }, cpu_ms, memory_bytes: cpu_ms === null ? null : 40, processes: 1, sampled_ms,
    error: cpu_ms === null ? "away" : null,
  });
  const view = (...items: KernelUseView[]) => ({ session: "s", status: "running", size: items.length, items });
  const first = nextUse(null, view(kernel(0, 1000, 500), kernel(1, 1000, 0)), 10);
  assert.deepEqual([first.cpu, first.memory], [[], [{ at: 10, devices: 80 }]]);
  const second = nextUse(first, view(kernel(0, 3000, 3500), kernel(1, null, null)), 20);
  // What was used until the second measurement began with the first; a kernel that is away does not count.
  assert.deepEqual([second.cpu, second.memory.at(-1)], [[{ at: 10, devices: 1500 }], { at: 20, devices: 40 }]);
  // The same measurement again, which the server shares among viewers, keeps its rate.
  const third = nextUse(second, view(kernel(0, 3000, 3500)), 21);
  assert.deepEqual([...third.cores], [[0, 1500]]);
  assert.equal(coresOf(kernel(0, 1000, 900), kernel(0, 2000, 10)), 0);
  assert.equal(coresOf(undefined, kernel(0, 2000, 10)), null);
  assert.equal(askedOf(view(kernel(0, 1, 1), kernel(1, 1, 1)), "cpu"), 4000);
  let use: Use | null = null;
  for (let at = 0; at < POINTS_MAX + 9; at += 1) use = nextUse(use, view(kernel(0, at, at)), at);
  assert.deepEqual([use?.cpu.length, use?.memory.length], [POINTS_MAX, POINTS_MAX]);
});

test("the lines of several kernels stand in the order in which they came, each after its kernel", () => {
  const lines = new RankLines();
  const feed = (kernel: number, text: string, end = false) => lines.feed(kernel, encoder.encode(text), end);
  feed(0, "step 1\nste");
  feed(10, "step 1\r\n\u001b[31mred\n");
  feed(0, "p 2\nope");
  assert.equal(rankText(lines.all()), "[0]  step 1\n[10] step 1\n[10] red\n[0]  step 2\n[0]  ope");
  assert.equal(rankText(linesWith(lines.all(), "STEP 2")), "[0] step 2");
  feed(0, "n", true);
  feed(0, "started again\n");
  assert.deepEqual(lines.all().slice(-2).map((one) => one.text), ["open", "started again"]);
  // A letter that comes in two parts is one.
  const [first, second] = [encoder.encode("\u00e9\n").slice(0, 1), encoder.encode("\u00e9\n").slice(1)];
  lines.feed(3, first, false);
  lines.feed(3, second, false);
  assert.equal(lines.all().at(-1)?.text, "\u00e9");
});

test("of very much output the last is kept, and a line without an end is shown in parts", () => {
  const lines = new RankLines();
  for (let at = 0; at < 1_000; at += 1) lines.feed(1, encoder.encode(`${at} ${"x".repeat(999)}\n`), false);
  const kept = lines.all();
  assert.ok(kept.length < 450 && kept.length > 250, String(kept.length));
  assert.match(kept.at(-1)?.text ?? "", /^999 /);
  lines.feed(2, encoder.encode("y".repeat(70_000)), false);
  assert.deepEqual(lines.all().slice(-2).map((one) => one.text.length), [65_536, 4_464]);
});

test("kernels are named by indexes and ranges of them", () => {
  assert.deepEqual(ranksOf(" 0-2, 7", 8), { kernels: [0, 1, 2, 7], problem: "" });
  assert.deepEqual(ranksOf("", 3).kernels, [0, 1, 2]);
  assert.equal(ranksOf("", 1_000).kernels.length, 256);
  for (const wrong of ["x", "3-1", "0-8", "1,,2", "-1"]) assert.notEqual(ranksOf(wrong, 8).problem, "", wrong);
  assert.match(ranksOf("0-299", 1_000).problem, /300 kernels are too many/);
  assert.equal(ranksText([0, 1, 2, 7]), "0-2,7");
  assert.equal(placeWithout("0:12,1:5,10:7", new Set([1])), "0:12,10:7");
  assert.equal(placeWithout("", new Set([1])), "");
});

test("latencies are written for half of the answers and for 95 of 100", () => {
  const latency = { window_s: 300, answers: 1, first_p50_ms: 12, first_p95_ms: 1_240, whole_answers: 1, whole_p50_ms: 900, whole_p95_ms: 61_000 };
  assert.deepEqual([millis(999), millis(1_000), millis(300_000)], ["999 ms", "1 s", "300 s"]);
  assert.equal(latencyLine(latency), "12 ms / 1.2 s to the first token, 900 ms / 61 s to the end");
  assert.equal(latencyLine({ ...latency, whole_answers: 0 }), "12 ms / 1.2 s to the first token");
  assert.equal(latencyLine(null), "");
  assert.equal(measuredText(latency), "p50 / p95 of 1 answer in 5 minutes");
  assert.deepEqual(nextPoints([], latency, 7), [{ at: 7, first: 1_240, whole: 61_000 }]);
  const many = Array.from({ length: LATENCIES_MAX }, (_, at) => ({ at, first: 1, whole: 1 }));
  assert.deepEqual([nextPoints(many, null, 999).length, nextPoints(many, null, 999).at(-1)], [LATENCIES_MAX, { at: 999, first: 0, whole: 0 }]);
});
