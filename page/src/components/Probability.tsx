import { percent } from "../format";

interface Props {
  label: string;
  value: number;
  before?: number | undefined; // what it was when nothing was erased
}

/** A probability as a bar that moves; a line stays where it was. */
export function Probability({ label, value, before }: Props) {
  const shown = (some: number) => (some >= 0 && some <= 1 ? percent(some) : some.toPrecision(3).replace("-", "−"));
  const inside = value >= 0 && value <= 1;
  return (
    <div class="probability">
      <span><span>{label}</span> <span>{before !== undefined && <small class="muted">{shown(before)} → </small>}<b>{shown(value)}</b></span></span>
      {inside && (
        <span class="track" aria-hidden="true">
          <span style={{ width: `${100 * value}%` }} />
          {before !== undefined && <i style={{ left: `${100 * before}%` }} />}
        </span>
      )}
    </div>
  );
}
