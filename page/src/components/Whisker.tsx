import { number } from "../format";

export interface Scale {
  low: number;
  high: number;
}

export function scaleOf(values: (number | null | undefined)[]): Scale {
  const known = values.filter((value): value is number => typeof value === "number");
  const low = Math.min(...known, 0);
  const high = Math.max(...known, low + 1e-9);
  return { low, high };
}

interface Props {
  value: number | null;
  low: number | null;
  high: number | null;
  scale: Scale;
  reference?: number | null; // where random is
  best?: boolean;
  weak?: boolean;
}

/** Where a number lies on a whisker, in hundredths of its width. */
export function across(scale: Scale, x: number): number {
  return 4 + (92 * (Math.min(Math.max(x, scale.low), scale.high) - scale.low)) / (scale.high - scale.low);
}

/** A number as a dot, its interval as a line; what is no better than random is hollow. */
export function Whisker({ value, low, high, scale, reference, best, weak }: Props) {
  if (value === null) return null;
  const place = (x: number) => across(scale, x);
  const kind = best ? "best" : weak ? "weak" : "";
  return (
    <svg class={`whisker ${kind}`} viewBox="0 0 100 12" preserveAspectRatio="none" role="img"
      aria-label={`${number(value)}, interval ${number(low)} to ${number(high)}`}>
      {typeof reference === "number" && (
        <line class="reference" x1={place(reference)} x2={place(reference)} y1="0" y2="12" />
      )}
      {low !== null && high !== null && <line x1={place(low)} x2={place(high)} y1="6" y2="6" />}
      <line class="dot" x1={place(value)} x2={place(value)} y1="6" y2="6" />
      {weak && <line class="hole" x1={place(value)} x2={place(value)} y1="6" y2="6" />}
    </svg>
  );
}
