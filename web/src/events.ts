// Server-sent events from a stream of bytes. Pure.

/** The server says every 15 seconds that it is there. A stream that is silent for longer than this is taken for broken. */
export const SILENT_MS = 40_000;

export interface ServerEvent {
  event: string;
  data: string;
}

export class EventReader {
  #rest = "";
  /** The id of the last block that had one: where the stream can be resumed. */
  place = "";
  readonly #decoder = new TextDecoder();

  /** The events that these bytes complete. */
  push(bytes: Uint8Array): ServerEvent[] {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const blocks = this.#rest.split("\n\n");
    this.#rest = blocks.pop() ?? "";
    const found: ServerEvent[] = [];
    for (const block of blocks) {
      const fields = new Map<string, string>();
      for (const line of block.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0) fields.set(line.slice(0, at), line.slice(at + 2));
      }
      const data = fields.get("data");
      this.place = fields.get("id") ?? this.place;
      if (data !== undefined) found.push({ event: fields.get("event") ?? "message", data });
    }
    return found;
  }
}
