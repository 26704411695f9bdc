import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { changedFleet } from "../src/fleet.ts";
import { FleetStream } from "../src/live/fleetstream.ts";
import type { FromWorker } from "../src/live/messages.ts";
import type { FleetChangeView, FleetView } from "../src/wire.ts";

const ADA = { id: "ada-1", name: "ada-1", user: "ada", queue: "q" };
const BOB = { id: "bob-1", name: "bob-1", user: "bob", queue: "q" };
const FLEET: FleetView = {
  as_of: "t0", hypernodes: ["r1"], hypernode_parent: [-1], holders: [BOB], agents: ["a2", "a3"], status: ["alive", "alive"],
  connected: [true, true], kernels: [0, 1], hypernode: [-1, 0], device: ["g0", "g0", "g1"], device_agent: [0, 1, 1],
  device_slot: ["gpu", "gpu", "gpu"], device_units: [1, 1, 1], device_used: [0, 1, 0], device_holder: [-1, 0, -1],
  device_fault: ["", "", ""], device_use: [], device_memory: [], device_temperature: [], failing: { a2: "ill" }, slots: { gpu: 3 }, used: { gpu: 1 },
};
const NOTHING: FleetChangeView = {
  as_of: "t1", gone: [], joined: [], joined_devices: [], device: [], device_slot: [], device_units: [], hypernodes: null,
  hypernode_parent: null, agent_at: [], status: [], connected: [], kernels: [], hypernode: [], device_at: [], device_used: [],
  device_holder: [], device_fault: [], holders: [], measured: false, figure_at: [], device_use: [], device_memory: [],
  device_temperature: [], failing: {}, slots: null, used: null,
};

test("new values are at their places, and holders by id", () => {
  const change = {
    ...NOTHING, device_at: [0, 2], device_used: [1, 1], device_holder: [0, 1], device_fault: ["", "hot"], holders: [ADA, BOB],
    agent_at: [1], status: ["draining"], connected: [false], kernels: [2], hypernode: [-1], failing: { a2: "", a3: "ill" }, used: { gpu: 3 },
  };
  assert.deepEqual(changedFleet(FLEET, change), {
    ...FLEET, as_of: "t1", holders: [ADA, BOB], device_used: [1, 1, 1], device_holder: [0, 1, 1], device_fault: ["", "", "hot"],
    status: ["alive", "draining"], connected: [true, false], kernels: [0, 2], hypernode: [-1, -1], failing: { a3: "ill" }, used: { gpu: 3 },
  });
  assert.equal(FLEET.device_used[0], 0);
  const freed = { ...NOTHING, device_at: [1], device_used: [0], device_holder: [-1], device_fault: [""] };
  assert.deepEqual(changedFleet(FLEET, freed).holders, []);
  assert.deepEqual(changedFleet(FLEET, { ...freed, device_holder: [-2] }).device_holder, [-1, -2, -1]);
});

test("agents join by name with their devices, and leave with them", () => {
  const found = changedFleet(FLEET, {
    ...NOTHING, gone: ["a2"], joined: ["a1", "a4"], joined_devices: [2, 0], device: ["x", "y"], device_slot: ["fpga", "fpga"],
    device_units: [4, 4], agent_at: [0, 2], status: ["alive", "suspect"], connected: [true, false], kernels: [7, 8],
    hypernode: [0, -1], measured: true, figure_at: [1], device_use: [9], device_memory: [8], device_temperature: [30],
  });
  assert.deepEqual([found.agents, found.status, found.kernels], [["a1", "a3", "a4"], ["alive", "alive", "suspect"], [7, 1, 8]]);
  assert.deepEqual([found.device, found.device_agent], [["x", "y", "g0", "g1"], [0, 0, 1, 1]]);
  assert.deepEqual([found.device_units, found.device_holder, found.holders], [[4, 4, 1, 1], [-1, -1, 0, -1], [BOB]]);
  assert.deepEqual([found.device_use, found.failing], [[-1, 9, -1, -1], {}]);
  assert.deepEqual(changedFleet(found, NOTHING).device_use, []);
});

/** A server of one stream at a time. */
class Server {
  readonly places: string[] = [];
  #encoder = new TextEncoder();
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  refusal: Response | null = null;
  isOpen = false;

  readonly open = async (_path: string, place: string, signal: AbortSignal): Promise<Response> => {
    this.places.push(place);
    if (this.refusal) return this.refusal;
    return new Response(new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
        this.isOpen = true;
        signal.addEventListener("abort", () => {
          if (controller === this.#controller) this.isOpen = false;
          controller.error(signal.reason);
        });
      },
    }));
  };

  async send(event: string, place: string, content: unknown): Promise<void> {
    this.#controller?.enqueue(this.#encoder.encode(`event: ${event}\nid: ${place}\ndata: ${JSON.stringify(content)}\n\n`));
    await settle();
  }

  async end(): Promise<void> {
    this.#controller?.close();
    await settle();
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((done) => setImmediate(done));
}

function tab(): { told: FromWorker[]; postMessage: (message: FromWorker) => void } {
  const told: FromWorker[] = [];
  return { told, postMessage: (message) => void told.push(message) };
}

async function pass(seconds: number): Promise<void> {
  mock.timers.tick(seconds * 1000);
  await settle();
}

/** A stream that one tab follows, with a clock that only `pass` moves. */
async function followedByOne() {
  mock.timers.enable({ apis: ["setTimeout"] });
  const server = new Server();
  const stream = new FleetStream(server.open);
  const only = tab();
  stream.add(only);
  stream.setUp(true);
  await settle();
  return { server, stream, only };
}

test("tabs that show the fleet share a stream, which is opened while there are any", async () => {
  const server = new Server();
  const stream = new FleetStream(server.open);
  const [first, second] = [tab(), tab()];
  stream.add(first);
  assert.deepEqual(server.places, []);
  stream.setUp(true);
  await settle();
  await server.send("fleet", "p.1", FLEET);
  await server.send("change", "p.2", NOTHING);
  assert.deepEqual(first.told, [{ kind: "fleet", fleet: FLEET }, { kind: "fleet", change: NOTHING }]);
  // Another tab has the fleet sent as a whole, and not the half of it.
  stream.add(second);
  await settle();
  await server.send("fleet", "p.3", FLEET);
  assert.deepEqual([first.told.length, second.told], [3, [{ kind: "fleet", fleet: FLEET }]]);
  stream.remove(first);
  await server.send("change", "p.4", NOTHING);
  assert.deepEqual([first.told.length, second.told.length], [3, 2]);
  assert.deepEqual([server.places, server.isOpen], [["", ""], true]);
  stream.remove(second);
  await settle();
  assert.equal(server.isOpen, false);
});

test("a problem in the stream is told, and an answer that is not the server's own", async () => {
  const { server, stream, only } = await followedByOne();
  await server.send("problem", "", { title: "no", detail: "away" });
  await server.end();
  assert.deepEqual(only.told, [{ kind: "fleet", problem: { title: "no", detail: "away" } }]);
  server.refusal = new Response("<html>", { status: 502 });
  await pass(2);
  assert.deepEqual(only.told[1], { kind: "fleet", problem: { title: "no fleet", detail: "status 502" } });
  stream.remove(only);
  mock.timers.reset();
});

test("a stream that is silent for longer than the server is opened again", async () => {
  const { server, stream, only } = await followedByOne();
  await pass(39);
  await server.send("fleet", "p.1", FLEET);
  await pass(39);
  assert.equal(server.isOpen, true);
  await pass(2);
  assert.equal(server.isOpen, false);
  await pass(2);
  assert.deepEqual(server.places, ["", "p.1"]);
  stream.remove(only);
  mock.timers.reset();
});

test("a stream that breaks is resumed, and a refusal is told", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const server = new Server();
  const stream = new FleetStream(server.open);
  const only = tab();
  server.refusal = Response.json({ title: "no", detail: "away" }, { status: 503 });
  stream.setUp(true);
  stream.add(only);
  await settle();
  assert.deepEqual(only.told, [{ kind: "fleet", problem: { title: "no", detail: "away" } }]);
  server.refusal = null;
  await pass(2);
  await server.send("fleet", "p.1", FLEET);
  await server.end();
  await pass(2);
  assert.deepEqual(server.places, ["", "", "p.1"]);
  // Without the server nothing is tried, and then it is resumed.
  stream.setUp(false);
  await pass(60);
  assert.equal(server.places.length, 3);
  stream.setUp(true);
  await settle();
  assert.deepEqual(server.places.slice(3), ["p.1"]);
  stream.refresh();
  await settle();
  assert.deepEqual(server.places.slice(4), [""]);
  stream.remove(only);
  await pass(60);
  assert.equal(server.places.length, 5);
  mock.timers.reset();
});
