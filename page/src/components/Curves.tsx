import { useState } from "preact/hooks";
import { look, percent } from "../format";
import type { Board } from "../types";
import { axis, Chart, placeX, placeY } from "./Chart";

const AT_FIRST = 5; // explainers that are drawn until somebody asks for more

/** The mean probability of the class explained as units are erased (or alone kept), with bands of 95 %. */
export function Curves({ board }: { board: Board }) {
  const [place, setPlace] = useState(() => Math.max(0, board.curves.findIndex(({ metric }) => metric === board.slider)));
  const names = board.explainers.map((explainer) => explainer.name);
  const [shown, setShown] = useState(() => new Set([...names.slice(0, AT_FIRST), "random"]));
  const curve = board.curves[place];
  if (!curve) return null;
  const values = Object.values(curve.lines).flatMap((line) => [...line.low, ...line.high]);
  const inside = values.every((value) => value >= 0 && value <= 1);
  const x = axis(0, 1, curve.kept ? "share of units kept, most important first" : "share of units erased, most important first", percentTick);
  const y = inside
    ? axis(0, 1, "probability of the class", percentTick)
    : axis(Math.min(...values), Math.max(...values), "value");
  const toggle = (name: string) => {
    const next = new Set(shown);
    if (!next.delete(name)) next.add(name);
    setShown(next);
  };
  return (
    <figure>
      <label>
        Erased as in{" "}
        <select value={place} onChange={(event) => setPlace(Number(event.currentTarget.value))}>
          {board.curves.map(({ metric }, number) => <option key={metric} value={number}>{metric}</option>)}
        </select>
      </label>
      <Chart x={x} y={y} label={`Curves of ${curve.metric}`}>
        {names.map((name, number) => {
          const line = curve.lines[name];
          if (!line || !shown.has(name)) return null;
          const { color, dash } = styleOf(name, number);
          const point = (at: number, value: number) => `${placeX(x, at).toFixed(1)},${placeY(y, value).toFixed(1)}`;
          const upper = line.ratios.map((ratio, step) => point(ratio, line.high[step]!));
          const lower = line.ratios.map((ratio, step) => point(ratio, line.low[step]!)).reverse();
          return (
            <g key={name} style={{ color }}>
              <polygon class="band" points={[...upper, ...lower].join(" ")} />
              <polyline class="line" stroke-dasharray={dash} points={line.ratios.map((ratio, step) => point(ratio, line.mean[step]!)).join(" ")} />
              {line.ratios.map((ratio, step) => (
                <circle key={ratio} cx={placeX(x, ratio)} cy={placeY(y, line.mean[step]!)} r="3">
                  <title>{`${name}: ${percent(line.mean[step])} at ${percent(ratio)}`}</title>
                </circle>
              ))}
            </g>
          );
        })}
      </Chart>
      <div class="legend" role="group" aria-label="Explainers shown">
        {names.map((name, number) => curve.lines[name] && (
          <button type="button" key={name} aria-pressed={shown.has(name)} onClick={() => toggle(name)}>
            <svg viewBox="0 0 24 8" aria-hidden="true" style={{ color: styleOf(name, number).color }}>
              <line class="line" x1="0" x2="24" y1="4" y2="4" stroke-dasharray={styleOf(name, number).dash} />
            </svg>
            {board.explainers[number]?.short}
          </button>
        ))}
      </div>
      <figcaption>
        {curve.kept
          ? "A faithful explanation brings the probability back with few units: the curve rises early."
          : "A faithful explanation makes the probability fall early: the lower the curve, the better."}{" "}
        Bands are 95 % intervals over examples.
      </figcaption>
    </figure>
  );
}

function styleOf(name: string, place: number) {
  return name === "random" ? { color: "#888", dash: "3 3" } : look(place);
}

function percentTick(at: number): string {
  return `${Math.round(100 * at)} %`;
}
