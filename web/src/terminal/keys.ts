// Keys and pasted text as the bytes that programs expect. Pure.

export interface Pressed {
  key: string;
  ctrlKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  metaKey: boolean;
}

const NAMED: Record<string, string> = { Enter: "\r", Backspace: "\u007f", Tab: "\t", Escape: "\u001b" };
const CURSOR: Record<string, string> = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const NUMBERED: Record<string, number> = {
  Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24,
};
const FUNCTIONS: Record<string, string> = { F1: "P", F2: "Q", F3: "R", F4: "S" };
const WITH_CTRL: Record<string, string> = { " ": "\u0000", "@": "\u0000", "[": "\u001b", "\\": "\u001c", "]": "\u001d", "^": "\u001e", _: "\u001f", "/": "\u001f" };

/** The bytes of a key, as text; null for keys that are left to the browser, such as letters. */
export function bytesOf(pressed: Pressed, arrowsAsApplication: boolean): string | null {
  const { key, ctrlKey, altKey, shiftKey, metaKey } = pressed;
  // Copying and pasting is the browser's.
  if (metaKey || (ctrlKey && shiftKey && /^[cv]$/i.test(key))) return null;
  if (key === "Tab" && shiftKey) return "\u001b[Z";
  const modifier = 1 + (shiftKey ? 1 : 0) + (altKey ? 2 : 0) + (ctrlKey ? 4 : 0);
  const cursor = CURSOR[key];
  if (cursor) return modifier > 1 ? `\u001b[1;${modifier}${cursor}` : `\u001b${arrowsAsApplication ? "O" : "["}${cursor}`;
  const number = NUMBERED[key];
  if (number) return `\u001b[${number}${modifier > 1 ? `;${modifier}` : ""}~`;
  const named = FUNCTIONS[key];
  if (named) return modifier > 1 ? `\u001b[1;${modifier}${named}` : `\u001bO${named}`;
  const before = altKey ? "\u001b" : "";
  const plain = NAMED[key];
  if (plain) return before + plain;
  if ([...key].length !== 1) return null;
  if (ctrlKey) {
    const control = /^[a-z]$/i.test(key) ? String.fromCharCode(key.toLowerCase().charCodeAt(0) - 0x60) : WITH_CTRL[key];
    return control === undefined ? null : before + control;
  }
  return altKey ? before + key : null;
}

/** Pasted text cannot press keys: its control characters are dropped, except for tabs and ends of lines. */
export function pasted(text: string, isMarked: boolean): string {
  const kept = text.replace(/\r\n?|\n/g, "\r").replace(/[\u0000-\u0008\u000a-\u000c\u000e-\u001f\u007f-\u009f]/g, "");
  return isMarked ? `\u001b[200~${kept}\u001b[201~` : kept;
}
