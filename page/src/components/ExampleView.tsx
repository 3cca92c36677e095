import { useEffect, useState } from "preact/hooks";
import { labelOf, number, percent, signed } from "../format";
import { isWrong, pieces, predicted, steps, strengths } from "../read";
import type { Board, Example } from "../types";
import { ColoredText, ColorLegend, UNSIGNED } from "./ColoredText";
import { Probability } from "./Probability";
import { Spark } from "./Spark";
import { Wide } from "./Wide";

/** One text under every explainer, side by side, and a slider that erases it step by step. */
export function ExampleView({ board, example }: { board: Board; example: Example }) {
  const [step, setStep] = useState(0);
  useEffect(() => setStep(0), [example]);
  const last = Math.max(0, ...example.explanations.map((one) => (one?.curve?.length ?? 1) - 1));
  const curves = board.curves.find((curve) => curve.metric === board.slider);
  const ratios = Object.values(curves?.lines ?? {})[0]?.ratios ?? [];
  const share = ratios.length === last + 1 ? ratios[step] : last ? step / last : 0;
  const known = example.explanations.flatMap((one, place) => (one ? [{ one, explainer: board.explainers[place]!, place }] : []));
  const guess = predicted(example);
  return (
    <article class="example" aria-label={`Example ${example.id}`}>
      <h3><a href={linkTo(board, example)}>{example.id}</a></h3>
      <p>
        Predicted <b>{labelOf(board.labels, guess)}</b> ({percent(example.probabilities[guess])})
        {example.label !== undefined && <>, true class <b>{labelOf(board.labels, example.label)}</b></>}
        {isWrong(example) && <span class="badge bad">wrong</span>}
        {example.p !== undefined && example.p < 0.05 && (
          <span class="badge bad">out of distribution when masked (p = {example.p})</span>
        )}
        {example.truncated && <span class="badge">cut: longer than the model reads</span>}
        {example.agreement !== undefined && <span class="badge">agreement {number(example.agreement, 2)}</span>}
      </p>
      {last > 0 && (
        <div class="slider">
          <label>
            Erase step by step, most important first:{" "}
            <input type="range" min={0} max={last} value={step} aria-valuetext={`${percent(share)} erased`}
              onInput={(event) => setStep(Number(event.currentTarget.value))} />
          </label>
          <output>{percent(share)} erased</output>
          <small class="muted">
            as measured by {board.slider}
            {board.slider_explains_again && ", which explains what is left again at every step: the order may differ from the colors"}
          </small>
        </div>
      )}
      <div class="cards">
        {known.map(({ one, explainer, place }) => {
          const order = one.erased_at ? steps(one.erased_at) : [];
          const erased = new Set(order.flatMap((at, unit) => (step > 0 && at <= step ? [unit] : [])));
          const target = one.target ?? example.target;
          const curve = one.curve;
          return (
            <section class="card" key={explainer.name}>
              <h4 title={explainer.name}>{explainer.short}</h4>
              {one.unsigned && <p class="muted said">{UNSIGNED}</p>}
              <ColoredText segments={pieces(example, one)} strengths={strengths(one.scores)} largest={one.largest} erased={erased} />
              <Probability label={labelOf(board.labels, curve ? (one.curve_target ?? target) : target)}
                value={curve?.[Math.min(step, curve.length - 1)] ?? example.probabilities[target] ?? Number.NaN} />
              {curve && <Spark values={curve} step={step} />}
              {one.note && <small class="muted">{one.note}</small>}
              <details>
                <summary>Scores</summary>
                <ValueList names={board.example_metrics} values={example.values[place] ?? []} />
              </details>
            </section>
          );
        })}
      </div>
      <ColorLegend signedToo={known.some(({ one }) => strengths(one.scores).some((strength) => strength < 0))} />
      <details>
        <summary>Scores of every unit as a table</summary>
        <UnitTable board={board} example={example} />
      </details>
    </article>
  );
}

export function linkTo(board: Board, example: Example): string {
  return `#example/${encodeURIComponent(board.title)}/${encodeURIComponent(example.id)}`;
}

function ValueList({ names, values }: { names: string[]; values: (number | null)[] }) {
  return (
    <table>
      <tbody>
        {names.map((name, place) => <tr key={name}><th scope="row">{name}</th><td>{number(values[place])}</td></tr>)}
      </tbody>
    </table>
  );
}

function UnitTable({ board, example }: { board: Board; example: Example }) {
  const shared = example.explanations.flatMap((one, place) => (one && !one.units ? [{ one, place }] : []));
  const units = pieces(example, null).flat().filter((unit) => unit.number !== null);
  return (
    <Wide label="Scores of every unit">
      <table>
        <thead>
          <tr><th scope="col">unit</th>{shared.map(({ place }) => <th scope="col" key={place}>{board.explainers[place]?.short}</th>)}</tr>
        </thead>
        <tbody>
          {units.map((unit) => (
            <tr key={unit.number}>
              <th scope="row">{unit.text}</th>
              {shared.map(({ one, place }) => (
                <td key={place}>{signed((strengths(one.scores)[unit.number!] ?? 0) * one.largest)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
