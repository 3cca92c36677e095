import { useState } from "preact/hooks";
import { look, number } from "../format";
import type { Board } from "../types";
import { axis, BOX, Chart, placeX, placeY } from "./Chart";
import { scaleOf } from "./Whisker";

const LINE = 15; // between two names
const LETTER = 7; // about as wide as one is
// On which side of its dot a name stands, and how many lines below it; the first that is free is taken.
const TRIES: [boolean, number][] = [0, 1, -1, 2, -2, 3, -3].flatMap((lines) => [[true, lines], [false, lines]] as [boolean, number][]);

/** What an explanation costs against how faithful it is. */
export function Cost({ board }: { board: Board }) {
  const ranked = board.metrics.map((metric, column) => ({ metric, column })).filter(({ metric }) => metric.higher !== null);
  const [chosen, setChosen] = useState(Math.max(0, ranked.findIndex(({ metric }) => metric.decides)));
  const current = ranked[chosen];
  if (!current) return null;
  const points = board.explainers.flatMap((explainer, row) => {
    const value = board.cells[row]?.[current.column]?.value ?? null;
    return value === null || !explainer.ms ? [] : [{ explainer, value, row, log: Math.log10(explainer.ms) }];
  });
  if (points.length === 0) return null;
  const logs = points.map((point) => point.log);
  const [first, last] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 1e-9)];
  const decades = Array.from({ length: last - first + 1 }, (_, place) => first + place);
  const x = { low: first, high: Math.max(last, first + 1), label: "milliseconds per example",
    ticks: decades.map((at) => ({ at, text: String(Number((10 ** at).toPrecision(2))) })) };
  const { low, high } = scaleOf(points.map((point) => point.value));
  const y = axis(low, high + 0.05 * (high - low), current.metric.short);
  const names = placed(points.map(({ explainer, value, log }) => ({ text: explainer.short, x: placeX(x, log), y: placeY(y, value) })));
  return (
    <figure>
      <label>
        Faithfulness by{" "}
        <select value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
          {ranked.map(({ metric }, place) => <option key={metric.name} value={place}>{metric.name}</option>)}
        </select>
      </label>
      <Chart x={x} y={y} label={`Cost against ${current.metric.name}`}>
        {points.map(({ explainer, value, row, log }, place) => {
          const name = names[place]!;
          return (
            <g key={explainer.name}>
              {name.moved && <line class="reference" x1={placeX(x, log)} y1={placeY(y, value)} x2={name.x} y2={name.y - 4} />}
              <circle style={{ fill: look(row, explainer.name).color }} cx={placeX(x, log)} cy={placeY(y, value)} r="5.5">
                <title>{`${explainer.name}: ${number(value)}, ${number(explainer.ms, 1)} ms`}</title>
              </circle>
              <text x={name.x} y={name.y} text-anchor={name.anchor}>{explainer.short}</text>
            </g>
          );
        })}
      </Chart>
      <figcaption>
        {current.metric.higher ? "Best is at the top left: faithful and cheap." : "Best is at the bottom left: faithful and cheap."}
      </figcaption>
    </figure>
  );
}

interface Name {
  x: number;
  y: number;
  anchor: "start" | "end";
  moved: boolean;
}

/** Where names are written so that none covers another or a dot: beside their dot, else as near as there is room. */
function placed(points: { text: string; x: number; y: number }[]): Name[] {
  const taken = points.map((point) => ({ left: point.x - 7, right: point.x + 7, y: point.y }));
  return points.map((point) => {
    const width = LETTER * point.text.length;
    const free = TRIES.map(([right, lines]) => {
      const left = right ? point.x + 10 : point.x - 10 - width;
      return { right, left, y: point.y + lines * LINE, moved: lines !== 0 };
    }).find(({ left, y }) =>
      left >= BOX.left && left + width <= BOX.width && y > BOX.top && y < BOX.height - BOX.bottom &&
      !taken.some((other) => other.left < left + width && other.right > left && Math.abs(other.y - y) < LINE - 1));
    const { right, left, y, moved } = free ?? { right: true, left: point.x + 10, y: point.y, moved: false };
    taken.push({ left, right: left + width, y });
    return { x: right ? left : left + width, y: y + 4, anchor: right ? "start" : "end", moved };
  });
}
