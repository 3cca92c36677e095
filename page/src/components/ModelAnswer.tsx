import { useEffect, useState } from "preact/hooks";
import { type Asked, type Attribution, type Erased, post } from "../api";
import { Explained } from "./Explained";
import { Probability } from "./Probability";

const MOST = 8; // classes that are shown

interface Props {
  model: string;
  asked: Asked;
  attributions: Attribution[];
  onToken?: (token: number) => void;
}

/** One model's explanations side by side; a click on a unit erases it everywhere and asks the model again. */
export function ModelAnswer({ model, asked, attributions, onToken }: Props) {
  const [erased, setErased] = useState<Set<number>>(new Set());
  const [answer, setAnswer] = useState<Erased | null>(null);
  const [fault, setFault] = useState("");
  const first = attributions[0];
  useEffect(() => {
    setErased(new Set());
    setAnswer(null);
  }, [attributions]);
  useEffect(() => {
    if (!first || erased.size === 0) return setAnswer(null);
    const leaving = new AbortController();
    const keep = [first.units.map((_, unit) => (erased.has(unit) ? 0 : 1))];
    post<Erased>("/api/erase", { ...asked, model, keep }, leaving.signal).then(
      (found) => { setAnswer(found); setFault(""); },
      (error: Error) => { if (error.name !== "AbortError") setFault(error.message); },
    );
    return () => leaving.abort();
  }, [erased]);
  if (!first) return <p>No label is above the threshold.</p>;
  const toggle = (unit: number) => {
    const next = new Set(erased);
    if (!next.delete(unit)) next.add(unit);
    setErased(next);
  };
  const now = answer?.probabilities[0] ?? first.probabilities;
  const order = first.probabilities.map((_, place) => place).sort((a, b) => first.probabilities[b]! - first.probabilities[a]!);
  return (
    <section class="model-answer" aria-label={model}>
      <h2>{model}</h2>
      <div class="prediction" aria-live="polite">
        {order.slice(0, MOST).map((place) => (
          <Probability key={place} label={(answer?.labels ?? first.labels)[place] ?? String(place)} value={now[place] ?? Number.NaN} />
        ))}
        <small class="muted">
          {erased.size === 0 ? "Click a word to erase it." : `${erased.size} of ${first.units.length} erased. `}
          {erased.size > 0 && <button type="button" onClick={() => setErased(new Set())}>Bring all back</button>}
        </small>
        {fault && <p role="alert">{fault}</p>}
      </div>
      <div class="cards">
        {attributions.map((attribution, place) => (
          <Explained key={place} attribution={attribution} erased={erased} onUnit={toggle} {...(onToken ? { onToken } : {})} />
        ))}
      </div>
    </section>
  );
}
