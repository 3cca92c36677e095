import { useEffect, useState } from "preact/hooks";
import { type Asked, type Attribution, type Erased, type Explanation, post } from "../api";
import { Explained } from "./Explained";
import { Probability } from "./Probability";
import { TokenTable } from "./TokenTable";

const MOST = 8; // classes that are shown

interface Props {
  model: string;
  asked: Asked;
  explanations: Explanation[];
  onToken?: (token: number | "each") => void;
}

/** One model's explanations: of a class, or of every token that was written. */
export function ModelAnswer({ model, asked, explanations, onToken }: Props) {
  const attributions = explanations.filter((one): one is Attribution => !("targets" in one));
  return (
    <section class="model-answer" aria-label={model}>
      <h2>{model}</h2>
      {explanations.length === 0 && <p>No label is above the threshold.</p>}
      {attributions.length > 0 && <Erasing {...{ model, asked, attributions, onToken }} />}
      <div class="cards">{explanations.map((one, place) => ("targets" in one ? <TokenTable key={place} matrix={one} /> : null))}</div>
      {attributions.length < explanations.length && (
        <p class="actions"><button class="quiet" type="button" onClick={() => onToken?.(0)}>Back to all of it</button></p>
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
  const now = answer?.probabilities[0] ?? first.probabilities;
  const order = first.probabilities.map((_, place) => place).sort((a, b) => first.probabilities[b]! - first.probabilities[a]!);
  return (
    <>
      <div class="prediction" aria-live="polite">
        {order.slice(0, MOST).map((place) => (
          <Probability key={place} label={(answer?.labels ?? first.labels)[place] ?? String(place)} value={now[place] ?? Number.NaN}
            before={answer ? first.probabilities[place] : undefined} />
        ))}
        <small class="muted">
          {erased.size === 0 ? "Click a word to erase it." : `${erased.size} of ${first.units.length} erased. `}
          {erased.size > 0 && <button class="quiet" type="button" onClick={() => setErased(new Set())}>Bring all back</button>}
        </small>
        {fault && <p role="alert">{fault}</p>}
      </div>
      <div class="cards">
        {attributions.map((attribution, place) => (
          <Explained key={place} attribution={attribution} erased={erased} onUnit={toggle} {...(onToken ? { onToken } : {})} />
        ))}
      </div>
    </>
  );
}
