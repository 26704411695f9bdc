// Who is logged in.
import { signal } from "@preact/signals";
import type { WhoamiView } from "./wire.ts";

export const me = signal<WhoamiView | null>(null);
