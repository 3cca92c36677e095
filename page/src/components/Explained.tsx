import { percent } from "../format";
import type { Attribution } from "../api";
import type { Unit } from "../read";
import { Units, UNSIGNED } from "./ColoredText";
import { Proof } from "./Proof";

interface Props {
  attribution: Attribution;
  erased: Set<number>;
  onUnit: (unit: number) => void;
  prompt: boolean; // whether the prompt is shown, too
  onToken?: (token: number | "each") => void; // of a continuation: explains that token, or each of them
}

/** One explanation: the text with units to click, what it says of the class, and its proof. */
export function Explained({ attribution, erased, onUnit, prompt, onToken }: Props) {
  const scores = attribution.scores.map((score) => score ?? 0);
  const largest = Math.max(...scores.map(Math.abs), 0);
  const strengths = scores.map((score) => (largest > 0 ? score / largest : 0));
  return (
    <section class="card">
      <h4 title={attribution.explainer}>{attribution.explainer.split("(")[0]}</h4>
      <p class="muted said">
        {attribution.target_label.trim() || "the continuation"} {shown(attribution, attribution.probabilities[attribution.target])}
        {!attribution.signed && `; ${UNSIGNED}`}
      </p>
      <p class="colored" dir="auto">
        {parts(attribution).map((part, place) => part.prompt !== null
          ? (prompt || attribution.prompt.length === 0) && <span key={place} class="prompt">{part.prompt}</span>
          : <Units key={place} units={part.units} strengths={strengths} largest={largest} erased={erased} onUnit={onUnit} exact
            numbered={attribution.unit_kind === "passage" && attribution.units.length > 1} />)}
      </p>
      {attribution.continuation.length > 0 && (
        <>
          <p class="continuation" role="group" aria-label="Continuation, token by token">
            {attribution.continuation.map((token, place) => (
              <button type="button" key={place} aria-pressed={attribution.target === 0 || attribution.target === place + 1}
                onClick={() => onToken?.(place + 1)}>{token}</button>
            ))}
          </p>
          <p class="actions">
            {attribution.target !== 0 && <button class="quiet" type="button" onClick={() => onToken?.(0)}>Whole continuation</button>}
            <button class="quiet" type="button" onClick={() => onToken?.("each")}>Table of all tokens</button>
          </p>
        </>
      )}
      {attribution.proof && <Proof proof={attribution.proof} shown={(value) => shown(attribution, value)} />}
    </section>
  );
}

function shown(attribution: Attribution, value: number | undefined): string {
  return attribution.outputs === "values" ? (value ?? Number.NaN).toPrecision(3).replace("-", "−") : percent(value);
}

interface Part {
  prompt: string | null;
  units: Unit[];
}

/** What is shown in order: the prompt around it, the text, its pair. */
function parts(attribution: Attribution): Part[] {
  const plain: [number | null, string][] = attribution.text_pair === null ? [[0, ""]] : [[0, ""], [null, " | "], [1, ""]];
  const layout = attribution.prompt.length > 0 ? attribution.prompt : plain;
  return layout.map(([segment, words]) => {
    if (segment === null) return { prompt: words, units: [] };
    const own = segment === 0 ? attribution.text : segment === 1 ? (attribution.text_pair ?? "") : words;
    return { prompt: null, units: cut(own, segment, attribution) };
  });
}

function cut(text: string, segment: number, attribution: Attribution): Unit[] {
  const points = Array.from(text); // Python counts code points
  const found: Unit[] = [];
  let cursor = 0;
  attribution.spans.forEach(([start, end], number) => {
    if (attribution.segments[number] !== segment || end <= cursor) return;
    if (start > cursor) found.push({ text: points.slice(cursor, start).join(""), number: null });
    found.push({ text: points.slice(Math.max(start, cursor), end).join(""), number });
    cursor = end;
  });
  if (cursor < points.length) found.push({ text: points.slice(cursor).join(""), number: null });
  return found;
}
