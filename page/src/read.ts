import type { Example, Explanation } from "./types";

// The letters of report/page_examples.py, in order; the middle one is 0.
const LETTERS = Array.from({ length: 92 }, (_, place) => String.fromCharCode(35 + place)).filter((one) => one !== "\\");
const PLACES = new Map(LETTERS.map((letter, place) => [letter, place]));
const STEPS = (LETTERS.length - 1) / 2;

export interface Unit {
  text: string;
  number: number | null; // null: what lies between units
}

/** Scores over the largest of their text, −1 … 1. */
export function strengths(scores: string): number[] {
  return Array.from(scores, (letter) => ((PLACES.get(letter) ?? STEPS) - STEPS) / STEPS);
}

/** The step at which each unit goes. */
export function steps(letters: string): number[] {
  return Array.from(letters, (letter) => PLACES.get(letter) ?? 0);
}

/** The text and its pair cut into units; Python counts code points, so a text is cut by those. */
export function pieces(example: Example, explanation: Explanation | null): Unit[][] {
  const flat = explanation?.units ?? example.units;
  const segments = explanation?.segments ?? example.segments ?? "";
  const texts = [example.text, ...(example.pair === undefined ? [] : [example.pair])];
  return texts.map((text, segment) => {
    const points = Array.from(text);
    const found: Unit[] = [];
    let cursor = 0;
    let shown = 0;
    for (let unit = 0; 2 * unit < flat.length; unit++) {
      if (Number(segments[unit] ?? 0) !== segment) continue;
      const start = cursor + (flat[2 * unit] ?? 0);
      cursor = start + (flat[2 * unit + 1] ?? 0);
      if (cursor <= shown) continue; // units that overlap: the first is shown
      if (start > shown) found.push({ text: points.slice(shown, start).join(""), number: null });
      found.push({ text: points.slice(Math.max(start, shown), cursor).join(""), number: unit });
      shown = cursor;
    }
    if (shown < points.length) found.push({ text: points.slice(shown).join(""), number: null });
    return found;
  });
}

/** Base64 of compressed JSON, as report.html carries its examples. */
export async function unpacked<T>(code: string): Promise<T> {
  const bytes = Uint8Array.from(atob(code.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as T;
}

export function predicted(example: Example): number {
  return example.probabilities.indexOf(Math.max(...example.probabilities));
}

export function isWrong(example: Example): boolean {
  return example.label !== undefined && example.probabilities.length > 1 && predicted(example) !== example.label;
}
