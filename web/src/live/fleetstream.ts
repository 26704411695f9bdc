// The stream of the fleet: the worker holds one while a page of any tab shows the fleet.
import { EventReader } from "../events.ts";
import { changedFleet } from "../fleet.ts";
import type { FleetChangeView, FleetView, ProblemView } from "../wire.ts";
import type { Line } from "./leader.ts";
import type { FromWorker } from "./messages.ts";

const RETRY_MS = 1_000;
const RETRY_MAX_MS = 15_000;
// A page that shows the fleet may follow one that did.
const LINGER_MS = 3_000;
// As for the stream of events: the server says every 15 seconds that it is there.
const SILENT_MS = 40_000;

/** Opens a stream; the headers name the place that it is resumed from. */
export type Open = (path: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Response>;

export class FleetStream {
  readonly #open: Open;
  readonly #lines = new Set<Line>();
  #fleet: FleetView | null = null;
  #problem: ProblemView | null = null;
  #place = "";
  #running: AbortController | null = null;
  #stream: AbortController | null = null;
  #end: ReturnType<typeof setTimeout> | undefined;
  #isHurried = false;
  #hurry: () => void = () => undefined;

  constructor(open: Open) {
    this.#open = open;
  }

  /** A tab shows the fleet. */
  add(line: Line): void {
    if (this.#lines.has(line)) return;
    this.#lines.add(line);
    // What is held may be old if there was no stream; then the changes follow.
    if (this.#fleet) line.postMessage({ kind: "fleet", fleet: this.#fleet });
    else if (this.#problem) line.postMessage({ kind: "fleetProblem", problem: this.#problem });
    this.start();
  }

  /** Open the stream, if a tab shows the fleet. */
  start(): void {
    clearTimeout(this.#end);
    if (this.#running || !this.#lines.size) return;
    this.#running = new AbortController();
    void this.#run(this.#running.signal);
  }

  /** A tab shows it no more. */
  remove(line: Line): void {
    if (!this.#lines.delete(line) || this.#lines.size) return;
    this.#end = setTimeout(() => this.#pause(), LINGER_MS);
  }

  /** Everything is sent again, at once. */
  refresh(): void {
    this.#place = "";
    this.#isHurried = true;
    this.#stream?.abort();
    this.#hurry();
  }

  /** The server is there again: do not wait any longer. */
  hurry(): void {
    this.#hurry();
  }

  /** Someone has logged out: nothing is held for another one. */
  stop(): void {
    clearTimeout(this.#end);
    this.#pause();
    this.#fleet = this.#problem = null;
    this.#place = "";
  }

  #pause(): void {
    this.#running?.abort();
    this.#running = null;
  }

  async #run(signal: AbortSignal): Promise<void> {
    let wait = RETRY_MS;
    while (!signal.aborted) {
      const began = Date.now();
      try {
        await this.#follow(signal);
      } catch {
        // It is opened again.
      }
      if (signal.aborted) return;
      if (this.#isHurried) {
        this.#isHurried = false;
        continue;
      }
      wait = Date.now() - began > RETRY_MAX_MS ? RETRY_MS : Math.min(RETRY_MAX_MS, wait * 2);
      await new Promise<void>((done) => {
        this.#hurry = done;
        setTimeout(done, wait);
      });
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const own = (this.#stream = new AbortController());
    const end = () => own.abort();
    let heardAt = Date.now();
    const listening = setInterval(() => Date.now() - heardAt > SILENT_MS && end(), SILENT_MS / 8);
    signal.addEventListener("abort", end);
    try {
      const resumes = this.#fleet !== null && this.#place !== "";
      const answer = await this.#open("fleet/events", resumes ? { "Last-Event-ID": this.#place } : {}, own.signal);
      if (!answer.ok || !answer.body) return await this.#failed(answer);
      const reader = answer.body.getReader();
      const parser = new EventReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        heardAt = Date.now();
        for (const one of parser.push(value)) {
          if (one.event === "problem") return;
          if (one.event === "fleet") this.#whole(JSON.parse(one.data) as FleetView);
          if (one.event === "change") this.#changed(JSON.parse(one.data) as FleetChangeView);
        }
        this.#place = parser.place || this.#place;
      }
    } finally {
      clearInterval(listening);
      signal.removeEventListener("abort", end);
      end();
    }
  }

  async #failed(answer: Response): Promise<void> {
    this.#problem = (await answer.json()) as ProblemView;
    if (!this.#fleet) this.#tell({ kind: "fleetProblem", problem: this.#problem });
  }

  #whole(fleet: FleetView): void {
    this.#fleet = fleet;
    this.#problem = null;
    this.#tell({ kind: "fleet", fleet });
  }

  #changed(change: FleetChangeView): void {
    if (!this.#fleet) return;
    this.#fleet = changedFleet(this.#fleet, change);
    this.#tell({ kind: "fleetChange", change });
  }

  #tell(message: FromWorker): void {
    for (const line of this.#lines) line.postMessage(message);
  }
}
