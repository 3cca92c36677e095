import type { ComponentChildren } from "preact";

export interface Axis {
  low: number;
  high: number;
  label: string;
  ticks: { at: number; text: string }[];
}

// A small screen gets a smaller picture instead of smaller letters.
const narrow = matchMedia("(max-width: 48rem)").matches;
export const BOX = { left: 66, right: 26, top: 12, bottom: 42, width: narrow ? 360 : 620, height: narrow ? 260 : 330 };

export function placeX(axis: Axis, x: number): number {
  return BOX.left + ((x - axis.low) / (axis.high - axis.low || 1)) * (BOX.width - BOX.left - BOX.right);
}

export function placeY(axis: Axis, y: number): number {
  return BOX.height - BOX.bottom - ((y - axis.low) / (axis.high - axis.low || 1)) * (BOX.height - BOX.top - BOX.bottom);
}

/** Axes with ticks; what is drawn on them are the children. */
export function Chart({ x, y, label, children }: { x: Axis; y: Axis; label: string; children: ComponentChildren }) {
  const floor = BOX.height - BOX.bottom;
  return (
    <svg class="chart" viewBox={`0 0 ${BOX.width} ${BOX.height}`} role="img" aria-label={label}>
      {y.ticks.map((tick) => (
        <g key={tick.text} class="grid">
          <line x1={BOX.left} x2={BOX.width - BOX.right} y1={placeY(y, tick.at)} y2={placeY(y, tick.at)} />
          <text x={BOX.left - 8} y={placeY(y, tick.at) + 4} text-anchor="end">{tick.text}</text>
        </g>
      ))}
      {x.ticks.map((tick) => (
        <text class="tick" key={tick.text} x={placeX(x, tick.at)} y={floor + 18} text-anchor="middle">{tick.text}</text>
      ))}
      <text class="name" x={(BOX.left + BOX.width - BOX.right) / 2} y={BOX.height - 5} text-anchor="middle">{x.label}</text>
      <text class="name" transform={`translate(12 ${(floor + BOX.top) / 2}) rotate(-90)`} text-anchor="middle">{y.label}</text>
      <line class="axis" x1={BOX.left} x2={BOX.width - BOX.right} y1={floor} y2={floor} />
      {children}
    </svg>
  );
}

/** Round numbers within a range. */
export function axis(low: number, high: number, label: string, text = (at: number) => `${at}`): Axis {
  const span = high - low || 1;
  const raw = span / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw) ?? raw;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) {
    ticks.push({ at, text: text(Number(at.toPrecision(6))).replace("-", "−") });
  }
  return { low, high, label, ticks };
}

export function percentTick(at: number): string {
  return `${Number((100 * at).toFixed(1))} %`;
}
