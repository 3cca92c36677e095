import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { labelOf } from "../format";
import { isWrong, predicted } from "../read";
import type { Board, Example } from "../types";
import { ExampleView, linkTo } from "./ExampleView";

const PAGE = 50;
const UNUSUAL = 0.05; // the p-value below which a masked text counts as out of distribution

interface Wanted {
  only: "" | "wrong" | "disagree" | "unusual" | "cut";
  label: string;
  word: string;
}

/** A browser of examples with filters; one is shown whole. */
export function Examples({ board, examples, total }: { board: Board; examples: Example[]; total: number }) {
  const [wanted, setWanted] = useState<Wanted>({ only: "", label: "", word: "" });
  const [count, setCount] = useState(PAGE);
  const [chosen, setChosen] = useState<Example | null>(null);
  const view = useRef<HTMLDivElement>(null);
  const limit = useMemo(() => lowest(examples), [examples]);
  const found = useMemo(() => examples.filter((example) => fits(example, wanted, limit)), [examples, wanted, limit]);
  useEffect(() => {
    const follow = () => {
      const [kind, title, id] = location.hash.slice(1).split("/").map(decodeURIComponent);
      if (kind !== "example" || title !== board.title) return;
      const named = examples.find((example) => example.id === id);
      if (named) {
        setChosen(named);
        requestAnimationFrame(() => view.current?.scrollIntoView({ block: "start" }));
      }
    };
    follow();
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, [board, examples]);
  const change = (part: Partial<Wanted>) => {
    setWanted({ ...wanted, ...part });
    setCount(PAGE);
  };
  const shown = chosen && found.includes(chosen) ? chosen : (found[0] ?? null);
  const labels = [...new Set(examples.flatMap((example) => [predicted(example), ...(example.label ?? -1) >= 0 ? [example.label!] : []]))].sort((a, b) => a - b);
  return (
    <>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>Show{" "}
          <select value={wanted.only} onChange={(event) => change({ only: event.currentTarget.value as Wanted["only"] })}>
            <option value="">all examples</option>
            <option value="wrong">wrong predictions</option>
            <option value="disagree">explainers that disagree (the lowest quarter)</option>
            <option value="unusual">out of distribution when masked</option>
            <option value="cut">texts that were cut</option>
          </select>
        </label>
        <label>Class{" "}
          <select value={wanted.label} onChange={(event) => change({ label: event.currentTarget.value })}>
            <option value="">any</option>
            {labels.map((label) => <option key={label} value={label}>{labelOf(board.labels, label)}</option>)}
          </select>
        </label>
        <label>Word or id{" "}
          <input type="search" value={wanted.word} onInput={(event) => change({ word: event.currentTarget.value })} />
        </label>
        <output aria-live="polite">{found.length} of {examples.length}</output>
      </form>
      {examples.length < total && (
        <p class="muted">The first {examples.length} of {total} examples are in this file, to keep it small; all numbers are over all of them.
          To see others: troth serve.</p>
      )}
      <div class="browser">
        <ol class="list" aria-label="Examples found">
          {found.slice(0, count).map((example, place) => (
            <li key={place}>
              <a href={linkTo(board, example)} aria-current={example === shown ? "true" : undefined}
                onClick={(event) => { event.preventDefault(); setChosen(example); history.replaceState(null, "", linkTo(board, example)); }}>
                <small class="muted">{example.id}{isWrong(example) ? " · wrong" : ""}</small>
                <span>{example.text.slice(0, 90)}</span>
              </a>
            </li>
          ))}
          {found.length > count && <li><button type="button" onClick={() => setCount(count + PAGE)}>Show more</button></li>}
        </ol>
        <div ref={view}>{shown ? <ExampleView board={board} example={shown} /> : <p>No example fits. Change the filters.</p>}</div>
      </div>
    </>
  );
}

function lowest(examples: Example[]): number {
  const known = examples.flatMap((example) => (example.agreement === undefined ? [] : [example.agreement])).sort((a, b) => a - b);
  return known[Math.floor((known.length - 1) / 4)] ?? Number.NEGATIVE_INFINITY;
}

function fits(example: Example, { only, label, word }: Wanted, limit: number): boolean {
  if (only === "wrong" && !isWrong(example)) return false;
  if (only === "disagree" && !((example.agreement ?? Number.POSITIVE_INFINITY) <= limit)) return false;
  if (only === "unusual" && !((example.p ?? 1) < UNUSUAL)) return false;
  if (only === "cut" && !example.truncated) return false;
  if (label !== "" && predicted(example) !== Number(label) && example.label !== Number(label)) return false;
  const sought = word.trim().toLowerCase();
  return sought === "" || `${example.id}\n${example.text}\n${example.pair ?? ""}`.toLowerCase().includes(sought);
}
