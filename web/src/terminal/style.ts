// How a character looks. Pure. Styles are few and repeat, so lines hold their numbers.

export const SIDE_MAX = 500;

/** No colour of its own. */
export const DEFAULT = -1;
/** Colours from here on are 24-bit ones: this much plus red, green and blue. */
export const RGB = 256;

export interface Style {
  fg: number;
  bg: number;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
  hidden: boolean;
  strike: boolean;
}

export const PLAIN: Style = {
  fg: DEFAULT, bg: DEFAULT, bold: false, dim: false, italic: false, underline: false, inverse: false, hidden: false, strike: false,
};

// A program can make up sixteen million colours: beyond this many styles new ones look plain.
const STYLES_MAX = 4096;

export class StyleTable {
  readonly #styles: Style[] = [PLAIN];
  readonly #numbers = new Map<string, number>([[keyOf(PLAIN), 0]]);

  numberOf(style: Style): number {
    const key = keyOf(style);
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.#styles.length >= STYLES_MAX) return 0;
    this.#styles.push(style);
    this.#numbers.set(key, this.#styles.length - 1);
    return this.#styles.length - 1;
  }

  at(number: number): Style {
    return this.#styles[number] ?? PLAIN;
  }
}

function keyOf(style: Style): string {
  const flags = [style.bold, style.dim, style.italic, style.underline, style.inverse, style.hidden, style.strike];
  return `${style.fg} ${style.bg} ${flags.map(Number).join("")}`;
}

/** The style after a sequence "select graphic rendition" with these numbers. */
export function rendered(before: Style, numbers: readonly number[]): Style {
  let style = { ...before };
  const given = numbers.length ? numbers : [0];
  for (let at = 0; at < given.length; at += 1) {
    const number = given[at] ?? 0;
    if (number === 38 || number === 48) {
      const [colour, used] = extended(given, at + 1);
      if (colour !== null) style[number === 38 ? "fg" : "bg"] = colour;
      at += used;
    } else style = changed(style, number);
  }
  return style;
}

function extended(given: readonly number[], at: number): [number | null, number] {
  const byte = (place: number) => Math.min(255, given[place] ?? 0);
  if (given[at] === 5) return [byte(at + 1), 2];
  if (given[at] === 2) return [RGB + (byte(at + 1) << 16) + (byte(at + 2) << 8) + byte(at + 3), 4];
  return [null, 1];
}

const SETS: Record<number, Partial<Style>> = {
  1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { underline: true }, 7: { inverse: true }, 8: { hidden: true },
  9: { strike: true }, 21: { underline: true }, 22: { bold: false, dim: false }, 23: { italic: false }, 24: { underline: false },
  27: { inverse: false }, 28: { hidden: false }, 29: { strike: false }, 39: { fg: DEFAULT }, 49: { bg: DEFAULT },
};

function changed(style: Style, number: number): Style {
  if (number === 0) return { ...PLAIN };
  if (number >= 30 && number <= 37) return { ...style, fg: number - 30 };
  if (number >= 40 && number <= 47) return { ...style, bg: number - 40 };
  if (number >= 90 && number <= 97) return { ...style, fg: number - 82 };
  if (number >= 100 && number <= 107) return { ...style, bg: number - 92 };
  return { ...style, ...SETS[number] };
}

/** A colour above the first 16 as a value of CSS; those are classes, so that themes choose them. */
export function cssColour(colour: number): string {
  if (colour >= RGB) {
    const value = colour - RGB;
    return `rgb(${value >> 16} ${(value >> 8) & 255} ${value & 255})`;
  }
  if (colour >= 232) {
    const grey = 8 + (colour - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const cube = colour - 16;
  const step = (value: number) => (value ? 55 + value * 40 : 0);
  return `rgb(${step(Math.floor(cube / 36))} ${step(Math.floor(cube / 6) % 6)} ${step(cube % 6)})`;
}
