import { Cost } from "./components/Cost";
import { Curves } from "./components/Curves";
import { DotRows } from "./components/DotRows";
import { Examples } from "./components/Examples";
import { HeatMap } from "./components/HeatMap";
import { Leaderboard } from "./components/Leaderboard";
import { Model } from "./components/Model";
import { Term } from "./components/Term";
import { Words } from "./components/Words";
import type { Board, Example } from "./types";

type Terms = Record<string, string>;

/** All of one leaderboard: the answer first, what it rests on below. */
export function BoardPage({ board, examples, glossary }: { board: Board; examples: Example[] | null | Error; glossary: Terms }) {
  return (
    <>
      <section class="answer">
        <h2>{board.title}</h2>
        <p class="first">{board.answer[0]}</p>
        <ul>{board.answer.slice(1).map((line) => <li key={line}>{line}</li>)}</ul>
      </section>
      <section>
        <h2>Leaderboard</h2>
        <Leaderboard board={board} glossary={glossary} />
        <p class="muted">
          Dots are means, lines <Term meaning={glossary["interval"]}>95 % intervals</Term> over examples, the dashed line is{" "}
          <Term meaning={glossary["random"]}>random</Term>; hollow dots are no better than that. Explainers that share a{" "}
          <Term meaning={glossary["letters"]}>letter</Term> do not differ significantly. ↑ higher is better, ↓ lower is better.
        </p>
      </section>
      {board.curves.length > 0 && <section><h2>Erasure curves</h2><Curves board={board} /></section>}
      {board.erasure.map(({ metric, rows }) => (
        <section key={metric}>
          <h2><Term meaning={glossary["ACU"]}>ACU</Term> and <Term meaning={glossary["RACU"]}>RACU</Term> of {metric}</h2>
          <div class="columns">
            <DotRows caption="ACU, 95 % interval" reference={0} rows={rows.map((row) => rowOf(row.explainer, row.acu))} />
            <DotRows caption="RACU, 95 % interval" reference={0} rows={rows.map((row) => rowOf(row.explainer, row.racu))} />
          </div>
        </section>
      ))}
      <Trust board={board} glossary={glossary} />
      <section><h2>Cost against faithfulness</h2><Cost board={board} /></section>
      {Object.keys(board.words).length > 0 && <section><h2>Most important words</h2><Words board={board} /></section>}
      {board.performance && <section><h2>The model itself</h2><Model facts={board.performance} glossary={glossary} /></section>}
      <section id="examples">
        <h2>Examples</h2>
        {examples === null && <p aria-live="polite">Reading the examples…</p>}
        {examples instanceof Error && <p>The examples cannot be read by this browser ({examples.message}); use a newer one.</p>}
        {Array.isArray(examples) && (examples.length > 0
          ? <Examples board={board} examples={examples} total={board.examples} />
          : <p>This run holds no texts.</p>)}
      </section>
      {board.notes.map((note) => (
        <section key={note.title}>
          <details><summary><h2>{note.title}</h2></summary><ul>{note.lines.map((line) => <li key={line}>{line}</li>)}</ul></details>
        </section>
      ))}
    </>
  );
}

function Trust({ board, glossary }: { board: Board; glossary: Terms }) {
  const told = board.metrics.filter((metric) => metric.diagnosticity !== null);
  const { explainers, metrics } = board.agreement;
  if (told.length === 0 && explainers.names.length < 2) return null;
  return (
    <section>
      <h2>Which metrics can be trusted, and who agrees?</h2>
      {told.length > 0 && (
        <DotRows reference={0.5} digits={2}
          caption="Diagnosticity: how often a metric puts a real explanation before a random one (dashed: half, as by chance)"
          rows={told.map(({ short, diagnosticity }) => ({
            name: short, value: diagnosticity!.value, low: diagnosticity!.low, high: diagnosticity!.high,
            note: diagnosticity!.tied > 0 ? `${Math.round(diagnosticity!.tied)} ties` : "",
          }))} />
      )}
      <p><Term meaning={glossary["agreement"]}>Agreement</Term>: 1 the same order, 0 no relation, −1 the opposite order.</p>
      <div class="columns">
        {explainers.names.length > 1 && <HeatMap matrix={explainers} caption="Explainers, on which units matter" />}
        {metrics && metrics.names.length > 1 && <HeatMap matrix={metrics} caption="Metrics, on the ranking of explainers" />}
      </div>
    </section>
  );
}

function rowOf(name: string, [value, low, high]: [number | null, number | null, number | null]) {
  return { name, value, low, high };
}
