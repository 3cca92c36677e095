import { useEffect, useState } from "preact/hooks";
import { BoardPage } from "./BoardPage";
import { CheckPage } from "./CheckPage";
import { PlainTable } from "./components/PlainTable";
import { Provenance } from "./components/Provenance";
import { learn } from "./format";
import type { Board, Example, Report } from "./types";

/** A run: its leaderboards, where it comes from, and what the words mean. */
export function ReportPage({ report, load, home }: {
  report: Report; load: () => Promise<Example[][]>; home: string; // where it is served from; "" of a file
}) {
  const [examples, setExamples] = useState<Example[][] | Error | null>(null);
  const [place, setPlace] = useState(() => named(report));
  learn(report.styles);
  useEffect(() => {
    // After the first paint: what is read at once is the summary.
    const wait = setTimeout(() => load().then(setExamples, (error: Error) => setExamples(error)), 0);
    return () => clearTimeout(wait);
  }, [load]);
  const board = report.boards[place];
  const empty = !board && report.tables.length === 0 && report.checks.length === 0;
  return (
    <>
      <header class="top">
        <div>
          <h1>{home ? <a href={home}>troth</a> : "troth"} <small>{report.title}</small></h1>
          {report.boards.length > 1 && (
            <label>Model and data{" "}
              <select value={place} onChange={(event) => setPlace(Number(event.currentTarget.value))}>
                {report.boards.map((one, number) => <option key={one.title} value={number}>{one.title}</option>)}
              </select>
            </label>
          )}
          {board && <nav aria-label="Parts of this page">{links(board).map(([id, name]) => <a key={id} href={`#${id}`}>{name}</a>)}</nav>}
        </div>
      </header>
      <main>
        {report.unfinished && (
          <p class="warning notice">This run is not finished: {report.unfinished.done} of {report.unfinished.planned} parts are done. What is
            shown is what there is so far.</p>
        )}
        {report.checks.map((check) => <CheckPage key={check.title} check={check} />)}
        {report.tables.map((table) => <section key={table.title}><PlainTable table={table} /></section>)}
        {board && (
          <BoardPage key={board.title} board={board} glossary={report.glossary}
            examples={examples === null || examples instanceof Error ? examples : (examples[place] ?? [])} />
        )}
        {empty && <section><p>This run holds no scores yet. Run the same command again to resume it.</p></section>}
        {Object.keys(report.provenance).length > 0 && (
          <section class="folded">
            <details><summary><h2>Where this comes from</h2></summary><Provenance facts={report.provenance} /></details>
          </section>
        )}
        <section class="folded">
          <details><summary><h2>What the words mean</h2></summary>
            <dl>{Object.entries(report.glossary).map(([term, meaning]) => <div key={term}><dt>{term}</dt><dd>{meaning}</dd></div>)}</dl>
          </details>
        </section>
      </main>
    </>
  );
}

function links(board: Board): [string, string][] {
  const all: [string, string, boolean][] = [
    ["answer", "Answer", true], ["leaderboard", "Leaderboard", true], ["curves", "Curves", board.curves.length > 0],
    ["examples", "Examples", true], ["trust", "Trust", true], ["cost", "Cost", true],
    ["model", "Model", board.performance !== null], ["words", "Words", Object.keys(board.words).length > 0],
  ];
  return all.flatMap(([id, name, there]) => (there ? [[id, name] as [string, string]] : []));
}

function named(report: Report): number {
  const [kind, title] = location.hash.slice(1).split("/").map(decodeURIComponent);
  return kind === "example" ? Math.max(0, report.boards.findIndex((board) => board.title === title)) : 0;
}
