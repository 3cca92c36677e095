import { Cost } from "./components/Cost";
import { Curves } from "./components/Curves";
import { DotRows } from "./components/DotRows";
import { Examples } from "./components/Examples";
import { HeatMap } from "./components/HeatMap";
import { Leaderboard } from "./components/Leaderboard";
import { Model } from "./components/Model";
import { Term } from "./components/Term";
import { Verdict } from "./components/Verdict";
import { Words } from "./components/Words";
import { percent } from "./format";
import type { Board, Example } from "./types";

type Terms = Record<string, string>;

/** All of one leaderboard: the answer first, what it rests on below. */
export function BoardPage({ board, examples, glossary }: { board: Board; examples: Example[] | null | Error; glossary: Terms }) {
  return (
    <>
      <section class="answer" id="answer">
        <p class="kicker">{board.title}</p>
        <Verdict lines={board.answer} />
        <ul class="facts-row">{facts(board).map(([value, name]) => <li key={name}><b>{value}</b> {name}</li>)}</ul>
        <details><summary>Methods, in words for a paper</summary><p>{board.methods}</p></details>
      </section>
      <section id="leaderboard">
        <h2>Leaderboard</h2>
        <Leaderboard board={board} glossary={glossary} />
        <p class="muted">
          Dots are means, lines <Term meaning={glossary["interval"]}>95 % intervals</Term> over examples, the dashed line is{" "}
          <Term meaning={glossary["random"]}>random</Term>; hollow dots are no better than that. Explainers that share a{" "}
          <Term meaning={glossary["letters"]}>letter</Term> do not differ significantly. ↑ higher is better, ↓ lower is better.
        </p>
      </section>
      {board.curves.length > 0 && <section id="curves"><h2>Erasure curves</h2><Curves board={board} /></section>}
      {board.erasure.map(({ metric, rows }) => (
        <section key={metric}>
          <h2><Term meaning={glossary["ACU"]}>ACU</Term> and <Term meaning={glossary["RACU"]}>RACU</Term> of {metric}</h2>
          <div class="columns">
            <DotRows caption="ACU, 95 % interval" reference={0} rows={rows.map((row) => rowOf(row.explainer, row.acu))} />
            <DotRows caption="RACU, 95 % interval" reference={0} rows={rows.map((row) => rowOf(row.explainer, row.racu))} />
          </div>
        </section>
      ))}
      <section id="examples">
        <h2>Examples</h2>
        {examples === null && <p aria-live="polite">Reading the examples…</p>}
        {examples instanceof Error && <p>The examples cannot be read by this browser ({examples.message}); use a newer one.</p>}
        {Array.isArray(examples) && (examples.length > 0
          ? <Examples board={board} examples={examples} total={board.examples} />
          : <p>This run holds no texts.</p>)}
      </section>
      <Trust board={board} glossary={glossary} />
      <div class="pair">
        <section id="cost"><h2>Cost against faithfulness</h2><Cost board={board} /></section>
        {board.performance && <section id="model"><h2>The model itself</h2><Model facts={board.performance} glossary={glossary} /></section>}
      </div>
      {Object.keys(board.words).length > 0 && <section id="words"><h2>Most important words</h2><Words board={board} /></section>}
      {board.notes.map((note) => (
        <section key={note.title} class="folded">
          <details><summary><h2>{note.title}</h2></summary><ul>{note.lines.map((line) => <li key={line}>{line}</li>)}</ul></details>
        </section>
      ))}
    </>
  );
}

function facts(board: Board): [string, string][] {
  const some: [string, string][] = [
    [String(board.examples), board.examples === 1 ? "example" : "examples"],
    [String(board.explainers.length), board.explainers.length === 1 ? "explainer" : "explainers"],
    [String(board.metrics.length), board.metrics.length === 1 ? "metric" : "metrics"],
  ];
  if (board.seeds > 1) some.push([String(board.seeds), "seeds"]);
  if (board.performance) some.push([percent(board.performance.accuracy), "accuracy of the model"]);
  return some;
}

function Trust({ board, glossary }: { board: Board; glossary: Terms }) {
  const told = board.metrics.filter((metric) => metric.diagnosticity !== null);
  const { explainers, metrics } = board.agreement;
  if (told.length === 0 && explainers.names.length < 2) return null;
  return (
    <section id="trust">
      <h2>Which metrics can be trusted, and who agrees?</h2>
      {told.length > 0 && (
        <DotRows reference={0.5} digits={2}
          caption="Diagnosticity: how often a metric puts a real explanation before a random one (the line: one half, as by chance)"
          rows={told.map(({ short, diagnosticity }) => ({
            name: short, value: diagnosticity!.value, low: diagnosticity!.low, high: diagnosticity!.high,
            note: ties(diagnosticity!.tied),
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

function ties(count: number): string {
  const whole = Math.round(count);
  return whole === 0 ? "" : whole === 1 ? "1 tie" : `${whole} ties`;
}

function rowOf(name: string, [value, low, high]: [number | null, number | null, number | null]) {
  return { name, value, low, high };
}
