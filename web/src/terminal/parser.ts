// Splits the output of a program into text, control characters and sequences. Pure.
//
// Strings for the terminal itself (titles, clipboard, links, images) are dropped, however long they are.

export interface Sequence {
  prefix: string;
  numbers: number[];
  final: string;
}

export interface Actions {
  print(char: string): void;
  control(code: number): void;
  escape(intermediate: string, final: string): void;
  sequence(one: Sequence): void;
}

const NUMBERS_MAX = 32;
const NUMBER_MAX = 99_999;

type State = "text" | "escape" | "sequence" | "ignored" | "string" | "string-escape";

export class Parser {
  #state: State = "text";
  #prefix = "";
  #intermediate = "";
  #numbers: number[] = [];
  readonly #actions: Actions;

  constructor(actions: Actions) {
    this.#actions = actions;
  }

  write(text: string): void {
    for (const char of text) this.#take(char, char.codePointAt(0) ?? 0);
  }

  #take(char: string, code: number): void {
    if (this.#state === "string" || this.#state === "string-escape") return this.#inString(char, code);
    if (code === 0x1b) {
      this.#state = "escape";
      this.#intermediate = "";
    } else if (code === 0x18 || code === 0x1a) this.#state = "text";
    // Control characters act in the middle of sequences too.
    else if (code < 0x20) this.#actions.control(code);
    else if (code === 0x7f) return;
    else if (this.#state === "text") this.#actions.print(char);
    else if (this.#state === "escape") this.#inEscape(char, code);
    else this.#inSequence(char, code);
  }

  #inString(char: string, code: number): void {
    const ended = code === 0x07 || code === 0x18 || code === 0x1a || (this.#state === "string-escape" && char === "\\");
    this.#state = ended ? "text" : code === 0x1b ? "string-escape" : "string";
  }

  #inEscape(char: string, code: number): void {
    if (code <= 0x2f) {
      this.#intermediate = this.#intermediate.length ? "?" : char;
    } else if (!this.#intermediate && char === "[") {
      this.#state = "sequence";
      this.#prefix = "";
      this.#numbers = [];
    } else if (!this.#intermediate && "]PX^_".includes(char)) this.#state = "string";
    else {
      this.#state = "text";
      if (code <= 0x7e) this.#actions.escape(this.#intermediate, char);
    }
  }

  #inSequence(char: string, code: number): void {
    if (code >= 0x30 && code <= 0x39) this.#digit(code - 0x30);
    // A colon separates parts of one number; colours are the only ones that use it.
    else if (char === ";" || char === ":") this.#separator();
    else if (code >= 0x3c && code <= 0x3f) this.#prefix = char;
    else if (code <= 0x2f) this.#intermediate = char;
    else {
      const known = this.#state === "sequence" && !this.#intermediate && code <= 0x7e;
      this.#state = "text";
      if (known) this.#actions.sequence({ prefix: this.#prefix, numbers: this.#numbers, final: char });
    }
  }

  #digit(value: number): void {
    if (!this.#numbers.length) this.#numbers.push(0);
    const last = this.#numbers.length - 1;
    this.#numbers[last] = Math.min(NUMBER_MAX, (this.#numbers[last] ?? 0) * 10 + value);
  }

  #separator(): void {
    if (!this.#numbers.length) this.#numbers.push(0);
    if (this.#numbers.length < NUMBERS_MAX) this.#numbers.push(0);
    else this.#state = "ignored";
  }
}
