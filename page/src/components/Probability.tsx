import { percent } from "../format";

/** A probability as a bar that moves. */
export function Probability({ label, value }: { label: string; value: number }) {
  const inside = value >= 0 && value <= 1;
  return (
    <div class="probability">
      <span>{label} <b>{inside ? percent(value) : value.toPrecision(3)}</b></span>
      {inside && <span class="track" aria-hidden="true"><span style={{ width: `${100 * value}%` }} /></span>}
    </div>
  );
}
