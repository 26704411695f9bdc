// YAML of requests: what people write in files of sessions, without anchors, tags and further documents. Pure.

export type Yaml = null | boolean | number | string | Yaml[] | { [key: string]: Yaml };

/** What is wrong with a text, and in which of its lines, from 1 on. */
export class YamlProblem extends Error {
  readonly line: number;

  constructor(line: number, problem: string) {
    super(problem);
    this.line = line;
  }
}

interface Line {
  number: number;
  indent: number;
  text: string;
}

const MAX_DEPTH = 32;

/** The value of a text. Throws YamlProblem. */
export function readYaml(source: string): Yaml {
  return new Reader(source).document();
}

class Reader {
  readonly #source: readonly string[];
  readonly #lines: Line[];
  #at = 0;

  constructor(source: string) {
    this.#source = source.split(/\r?\n/);
    this.#lines = this.#source.flatMap((raw, index) => {
      const text = withoutComment(raw).trimEnd();
      if (/^ *\t/.test(text)) throw new YamlProblem(index + 1, "is indented by a tab; use spaces");
      return text.trim() ? [{ number: index + 1, indent: text.length - text.trimStart().length, text: text.trimStart() }] : [];
    });
    if (this.#lines[0]?.text === "---") this.#lines.shift();
    if (this.#lines.at(-1)?.text === "...") this.#lines.pop();
    const more = this.#lines.find(({ text, indent }) => indent === 0 && (text === "---" || text === "..."));
    if (more) throw new YamlProblem(more.number, "begins another document; a request is one");
  }

  document(): Yaml {
    const first = this.#lines[0];
    if (!first) return null;
    const value = this.#block(first.indent, 0);
    const rest = this.#lines[this.#at];
    if (rest) throw new YamlProblem(rest.number, "is not indented as what is above it");
    return value;
  }

  #block(indent: number, depth: number): Yaml {
    const line = this.#lines[this.#at];
    if (!line) return null;
    if (depth > MAX_DEPTH) throw new YamlProblem(line.number, "is nested too deeply");
    if (isItem(line.text)) return this.#items(indent, depth);
    if (keyOf(line.text)) return this.#entries(indent, depth);
    this.#at += 1;
    return this.#inline(line.text, line, depth);
  }

  #items(indent: number, depth: number): Yaml[] {
    const found: Yaml[] = [];
    for (let line = this.#lines[this.#at]; line && line.indent === indent && isItem(line.text); line = this.#lines[this.#at]) {
      const rest = line.text.slice(1).trimStart();
      if (rest && (keyOf(rest) || isItem(rest))) {
        // The item begins on the line of its dash, and goes on below it.
        const inner = indent + line.text.length - rest.length;
        this.#lines[this.#at] = { number: line.number, indent: inner, text: rest };
        found.push(this.#block(inner, depth + 1));
      } else {
        this.#at += 1;
        found.push(rest ? this.#inline(rest, line, depth) : this.#below(indent, depth));
      }
    }
    return found;
  }

  #entries(indent: number, depth: number): Yaml {
    const found = new Map<string, Yaml>();
    for (let line = this.#lines[this.#at]; line && line.indent === indent && !isItem(line.text); line = this.#lines[this.#at]) {
      const [key, rest] = keyOf(line.text) ?? [];
      if (key === undefined || rest === undefined) throw new YamlProblem(line.number, "is no name with a colon after it");
      if (found.has(key)) throw new YamlProblem(line.number, `names ${key} a second time`);
      this.#at += 1;
      found.set(key, rest ? this.#inline(rest, line, depth) : this.#below(indent, depth, true));
    }
    return Object.fromEntries(found);
  }

  /** What is indented below a line; items of a name may be as far left as it. */
  #below(indent: number, depth: number, named = false): Yaml {
    const next = this.#lines[this.#at];
    if (next && (next.indent > indent || (named && next.indent === indent && isItem(next.text)))) return this.#block(next.indent, depth + 1);
    return null;
  }

  #inline(text: string, line: Line, depth: number): Yaml {
    if (/^[|>][+-]?$/.test(text)) return this.#literal(text, line);
    if (!/^[[{"']/.test(text)) return scalar(this.#folded(text, line), line.number);
    let whole = text;
    // Brackets may be closed on a later line.
    for (;;) {
      const flow = new Flow(whole, line.number, depth);
      const value = flow.read();
      if (value !== undefined) return value;
      const next = this.#lines[this.#at];
      if (!next) throw new YamlProblem(line.number, "has a bracket that is not closed");
      this.#at += 1;
      whole = `${whole} ${next.text}`;
    }
  }

  /** A plain text that goes on, further to the right. */
  #folded(text: string, line: Line): string {
    let whole = text;
    for (let next = this.#lines[this.#at]; next && next.indent > line.indent && !keyOf(next.text) && !isItem(next.text); next = this.#lines[this.#at]) {
      whole += ` ${next.text}`;
      this.#at += 1;
    }
    return whole;
  }

  #literal(style: string, line: Line): string {
    const found: string[] = [];
    let indent = -1;
    let number = line.number;
    for (; number < this.#source.length; number += 1) {
      const raw = this.#source[number] ?? "";
      const inner = raw.length - raw.trimStart().length;
      if (raw.trim() && indent < 0 && inner > line.indent) indent = inner;
      if (raw.trim() && (indent < 0 || inner < indent)) break;
      found.push(indent < 0 ? "" : raw.slice(indent));
    }
    while ((this.#lines[this.#at]?.number ?? Infinity) <= number) this.#at += 1;
    const lines = found.join("\n").trimEnd();
    const text = style.startsWith("|") ? lines : lines.replace(/([^\n])\n(?=[^\n])/g, "$1 ");
    return style.endsWith("-") || !text ? text : `${text}\n`;
  }
}

/** Lists in brackets, entries in braces, and texts in quotes. */
class Flow {
  readonly #text: string;
  readonly #line: number;
  readonly #depth: number;
  #at = 0;

  constructor(text: string, line: number, depth: number) {
    this.#text = text;
    this.#line = line;
    this.#depth = depth;
  }

  /** The value; undefined if the text ends before it does. */
  read(): Yaml | undefined {
    try {
      const value = this.#value(this.#depth);
      this.#skip();
      if (this.#at < this.#text.length) throw new YamlProblem(this.#line, `has ${this.#text.slice(this.#at)} after its end`);
      return value;
    } catch (error) {
      if (error instanceof Unfinished) return undefined;
      throw error;
    }
  }

  #value(depth: number): Yaml {
    if (depth > MAX_DEPTH) throw new YamlProblem(this.#line, "is nested too deeply");
    this.#skip();
    const char = this.#next();
    if (char === "[") return this.#list(depth);
    if (char === "{") return this.#map(depth);
    if (char === '"' || char === "'") return this.#quoted(char);
    const word = /^[^,\]}]*?(?=\s*(,|\]|\}|:\s|:$|$))/.exec(this.#text.slice(this.#at))?.[0] ?? "";
    this.#at += word.length;
    return scalar(word.trim(), this.#line);
  }

  #list(depth: number): Yaml[] {
    const found: Yaml[] = [];
    this.#at += 1;
    for (;;) {
      this.#skip();
      if (this.#next() === "]") break;
      found.push(this.#value(depth + 1));
      this.#separator("]");
    }
    this.#at += 1;
    return found;
  }

  #map(depth: number): Yaml {
    const found = new Map<string, Yaml>();
    this.#at += 1;
    for (;;) {
      this.#skip();
      if (this.#next() === "}") break;
      const key = String(this.#value(depth + 1));
      this.#skip();
      if (this.#next() !== ":") throw new YamlProblem(this.#line, `has ${key} without a colon after it`);
      this.#at += 1;
      if (found.has(key)) throw new YamlProblem(this.#line, `names ${key} a second time`);
      found.set(key, this.#value(depth + 1));
      this.#separator("}");
    }
    this.#at += 1;
    return Object.fromEntries(found);
  }

  #quoted(quote: string): string {
    const rest = this.#text.slice(this.#at);
    const found = (quote === '"' ? /^"(?:[^"\\]|\\.)*"/ : /^'(?:[^']|'')*'/).exec(rest)?.[0];
    if (found === undefined) throw new YamlProblem(this.#line, "has a quote that is not closed on its line");
    this.#at += found.length;
    if (quote === "'") return found.slice(1, -1).replaceAll("''", "'");
    try {
      return JSON.parse(found) as string;
    } catch {
      throw new YamlProblem(this.#line, `has a backslash in ${found} that means nothing`);
    }
  }

  #separator(close: string): void {
    this.#skip();
    const char = this.#next();
    if (char === ",") this.#at += 1;
    else if (char !== close) throw new YamlProblem(this.#line, `has ${char} where a comma or ${close} is expected`);
  }

  #next(): string {
    const char = this.#text[this.#at];
    if (char === undefined) throw new Unfinished();
    return char;
  }

  #skip(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at += 1;
  }
}

class Unfinished extends Error {}

function isItem(text: string): boolean {
  return text === "-" || text.startsWith("- ");
}

/** A name and what is behind its colon. */
function keyOf(text: string): [string, string] | null {
  const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+(.*))?$/.exec(text);
  if (quoted?.[1]) return [String(new Flow(quoted[1], 0, 0).read()), quoted[2] ?? ""];
  const colon = text.search(/:(\s|$)/);
  if (colon < 1 || /^(["'[{&*!|>%@`]|\?\s)/.test(text)) return null;
  return [text.slice(0, colon).trimEnd(), text.slice(colon + 1).trimStart()];
}

/** A line without what a number sign begins, unless it is quoted. */
function withoutComment(line: string): string {
  let quote = "";
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] ?? "";
    if (quote) {
      if (char === "\\" && quote === '"') at += 1;
      else if (char === quote) quote = "";
    } else if (/["']/.test(char) && /(^|[\s[{,:-])$/.test(line.slice(0, at))) quote = char;
    else if (char === "#" && (at === 0 || /\s/.test(line[at - 1] ?? ""))) return line.slice(0, at);
  }
  return line;
}

const WORDS: Record<string, null | boolean> = { "": null, "~": null, null: null, true: true, yes: true, on: true, false: false, no: false, off: false };
// Octal and base 60, of which few people know.
const AMBIGUOUS = /^[-+]?(0[0-7_]+|0[xob].*|[0-9][0-9_]*(:[0-5]?[0-9])+|[0-9]+_[0-9_]*)$/;

function scalar(text: string, line: number): Yaml {
  if (/^([&*!%@`|>]|\?(\s|$))/.test(text)) throw new YamlProblem(line, `begins with ${text[0]}, which is not read here; put the text into quotes`);
  if (Object.hasOwn(WORDS, text.toLowerCase())) return WORDS[text.toLowerCase()] ?? null;
  if (AMBIGUOUS.test(text)) throw new YamlProblem(line, `${text} has several meanings; put it into quotes`);
  return /^[-+]?(0|[1-9][0-9]*)(\.[0-9]*([eE][-+][0-9]+)?)?$/.test(text) ? Number(text) : text;
}

/** The text of a value, such that `readYaml` and the command line read the same. */
export function writeYaml(value: Yaml): string {
  return `${lines(value).join("\n")}\n`;
}

function lines(value: Yaml): string[] {
  if (Array.isArray(value) && value.length) {
    return value.flatMap((one) => {
      const [first = "", ...rest] = isShort(one) ? [short(one)] : lines(one);
      return [`- ${first}`, ...rest.map((line) => `  ${line}`)];
    });
  }
  if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) {
    return Object.entries(value).flatMap(([key, one]) =>
      isShort(one) ? [`${word(key)}: ${short(one)}`] : [`${word(key)}:`, ...lines(one).map((line) => `  ${line}`)],
    );
  }
  return [short(value)];
}

/** Whether a value is written on the line of its name: all but entries, and lists of more than words. */
function isShort(value: Yaml): boolean {
  if (value === null || typeof value !== "object") return true;
  if (Array.isArray(value)) return value.every((one) => one === null || typeof one !== "object");
  return !Object.keys(value).length;
}

function short(value: Yaml): string {
  if (Array.isArray(value)) return `[${value.map(short).join(", ")}]`;
  if (typeof value === "string") return word(value);
  return value !== null && typeof value === "object" ? "{}" : String(value);
}

function word(text: string): string {
  const isPlain = /^[A-Za-z_/.][\w./ -]*$/.test(text) && !/\s$/.test(text) && !Object.hasOwn(WORDS, text.toLowerCase()) && !/^([yn]|\.(inf|nan)|[-+.]*[0-9.]+(e.*)?)$/i.test(text);
  if (isPlain) return text;
  // YAML has no such characters, or ends a line at them.
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
