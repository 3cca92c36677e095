import { useEffect, useState } from "preact/hooks";
import { type Asked, type Attribution, type Erased, type OfModel, post, type TokenMatrix } from "../api";
import { tokenName } from "../format";
import { Explained } from "./Explained";
import { Probability } from "./Probability";
import { TokenTable } from "./TokenTable";

const MOST = 8; // classes that are shown

interface Props extends OfModel {
  asked: Asked;
  onToken?: (token: number | "each") => void;
}

/** One model's explanations, of a class or of every token that was written; first which of them is most faithful. */
export function ModelAnswer({ model, asked, explanations, comparison, refused, onToken }: Props) {
  const attributions = explanations.filter((one): one is Attribution => !("targets" in one));
  const matrices = explanations.filter((one): one is TokenMatrix => "targets" in one);
  return (
    <section class="model-answer" aria-label={model}>
      <h2>{model}</h2>
      {comparison.map((line) => <p class="verdict" key={line}>{line}</p>)}
      {refused.map(({ explainer, error }) => <p class="warning" role="alert" key={explainer}>Without {explainer}: {error}</p>)}
      {explanations.length === 0 && <p>No label is above the threshold.</p>}
      {attributions.length > 0 && <Erasing {...{ model, asked, attributions, onToken }} />}
      {matrices[0]?.unit_kind === "passage" && (
        <ol class="units">{matrices[0].units.map((unit, place) => <li key={place}>{unit.trim()}</li>)}</ol>
      )}
      <div class="cards">{matrices.map((one, place) => <TokenTable key={place} matrix={one} />)}</div>
      {matrices.length > 0 && (
        <p class="actions"><button class="quiet" type="button" onClick={() => onToken?.(0)}>Explain the whole continuation</button></p>
      )}
    </section>
  );
}

interface ErasingProps {
  model: string;
  asked: Asked;
  attributions: Attribution[];
  onToken: Props["onToken"];
}

/** Explanations side by side; a click on a unit erases it everywhere and asks the model again. */
function Erasing({ model, asked, attributions, onToken }: ErasingProps) {
  const [erased, setErased] = useState<Set<number>>(new Set());
  const [answer, setAnswer] = useState<Erased | null>(null);
  const [fault, setFault] = useState("");
  const first = attributions[0]!;
  useEffect(() => {
    if (erased.size === 0) return setAnswer(null);
    const leaving = new AbortController();
    const keep = [first.units.map((_, unit) => (erased.has(unit) ? 0 : 1))];
    post<Erased>("/api/erase", { ...asked, model, keep }, leaving.signal).then(
      (found) => { setAnswer(found); setFault(""); },
      (error: Error) => { if (error.name !== "AbortError") setFault(error.message); },
    );
    return () => leaving.abort();
  }, [erased]);
  const toggle = (unit: number) => {
    const next = new Set(erased);
    if (!next.delete(unit)) next.add(unit);
    setErased(next);
  };
  const prompt = sharedPrompt(attributions);
  const notes = [...new Set(attributions.map(({ note }) => note))].filter(Boolean);
  const now = answer?.probabilities[0] ?? first.probabilities;
  const order = first.probabilities.map((_, place) => place).sort((a, b) => first.probabilities[b]! - first.probabilities[a]!);
  return (
    <>
      <div class="prediction" aria-live="polite">
        {order.slice(0, MOST).map((place) => (
          <Probability key={place} label={tokenName((answer?.labels ?? first.labels)[place] ?? String(place))} value={now[place] ?? Number.NaN}
            before={answer ? first.probabilities[place] : undefined} />
        ))}
        <small class="muted">
          {erased.size === 0 ? `Click a ${first.unit_kind} to erase it and ask the model again.` : `${erased.size} of ${first.units.length} erased. `}
          {erased.size > 0 && <button class="quiet" type="button" onClick={() => setErased(new Set())}>Restore all</button>}
        </small>
        {fault && <p role="alert">{fault}</p>}
      </div>
      {prompt && <p class="prompt">{prompt}</p>}
      <div class="cards">
        {attributions.map((attribution, place) => (
          <Explained key={place} attribution={attribution} erased={erased} onUnit={toggle} prompt={!prompt} {...(onToken ? { onToken } : {})} />
        ))}
      </div>
      {notes.map((note) => <p class="muted" key={note}>{note}</p>)}
    </>
  );
}

/** The prompt around the text that several methods explain, to be shown once; empty where each shows its own. */
function sharedPrompt(attributions: Attribution[]): string {
  const { prompt } = attributions[0]!;
  if (attributions.length < 2 || prompt.length < 2 || prompt.filter(([segment]) => segment !== null).length !== 1) return "";
  return prompt.map(([segment, words]) => (segment === null ? words : "{text}")).join("");
}
