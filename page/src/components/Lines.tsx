import { useState } from "preact/hooks";
import { look, percent } from "../format";
import { type Axis, Chart, placeX, placeY } from "./Chart";

const AT_FIRST = 5; // lines that are drawn until somebody asks for more

export interface Line {
  name: string;
  shown: string;
  at: number[];
  values: number[];
  low?: number[];
  high?: number[];
}

interface Props {
  x: Axis;
  y: Axis;
  lines: Line[];
  label: string;
  value?: (value: number) => string;
  level?: { at: number; text: string }; // a dashed line that means something
}

/** Lines with bands; a click in the legend hides a line or brings it back. */
export function Lines({ x, y, lines, label, value = percent, level }: Props) {
  const [shown, setShown] = useState(() => new Set([...lines.slice(0, AT_FIRST).map((line) => line.name), "random"]));
  const toggle = (name: string) => {
    const next = new Set(shown);
    if (!next.delete(name)) next.add(name);
    setShown(next);
  };
  return (
    <div class="drawing">
      <Chart x={x} y={y} label={label}>
        {level && (
          <g class="level">
            <line class="reference" x1={placeX(x, x.low)} x2={placeX(x, x.high)} y1={placeY(y, level.at)} y2={placeY(y, level.at)} />
            <text x={placeX(x, x.high)} y={placeY(y, level.at) - 5} text-anchor="end">{level.text}</text>
          </g>
        )}
        {lines.map((line, place) => {
          if (!shown.has(line.name)) return null;
          const { color, dash } = look(place, line.name);
          const point = (at: number, value: number) => `${placeX(x, at).toFixed(1)},${placeY(y, value).toFixed(1)}`;
          const upper = line.at.map((at, step) => point(at, line.high?.[step] ?? line.values[step]!));
          const lower = line.at.map((at, step) => point(at, line.low?.[step] ?? line.values[step]!)).reverse();
          return (
            <g key={line.name} style={{ color }}>
              {line.low && <polygon class="band" points={[...upper, ...lower].join(" ")} />}
              <polyline class="line" stroke-dasharray={dash} points={line.at.map((at, step) => point(at, line.values[step]!)).join(" ")} />
              {line.at.map((at, step) => (
                <circle key={at} cx={placeX(x, at)} cy={placeY(y, line.values[step]!)} r="3">
                  <title>{`${line.name}: ${value(line.values[step]!)} at ${percent(at)}`}</title>
                </circle>
              ))}
            </g>
          );
        })}
      </Chart>
      <div class="legend" role="group" aria-label="Lines shown">
        {lines.map((line, place) => {
          const { color, dash } = look(place, line.name);
          return (
            <button type="button" key={line.name} aria-pressed={shown.has(line.name)} onClick={() => toggle(line.name)}>
              <svg viewBox="0 0 24 8" aria-hidden="true" style={{ color }}>
                <line class="line" x1="0" x2="24" y1="4" y2="4" stroke-dasharray={dash} />
              </svg>
              {line.shown}
            </button>
          );
        })}
      </div>
    </div>
  );
}
