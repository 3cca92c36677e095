import { useEffect, useRef, useState } from "preact/hooks";
import { type About, ask, type Asked, type Explanation, get, type Run } from "./api";
import { ColorLegend } from "./components/ColoredText";
import { ModelAnswer } from "./components/ModelAnswer";

const PAUSE = 5000; // milliseconds between two looks at runs that are being written

type Answer = { serial: number; asked: Asked; models: { model: string; explanations: Explanation[] }[] };

/** Type a text, pick a model and explainers, see what it relied on, erase words and watch the prediction move. */
export function ServePage() {
  const [about, setAbout] = useState<About | null>(null);
  const [runs, setRuns] = useState<Run[]>([]);
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [status, setStatus] = useState("");
  const [fault, setFault] = useState("");
  const [chosen, setChosen] = useState<string[]>(["integrated_gradients", "leave_one_out"]);
  const form = useRef<HTMLFormElement>(null);
  const work = useRef<AbortController | null>(null);
  useEffect(() => {
    const place = document.getElementById("answer");
    if (place && place.getBoundingClientRect().top > 0.8 * innerHeight) place.scrollIntoView({ block: "start" });
  }, [answer]);
  useEffect(() => {
    get<About>("/api/about").then(setAbout, (error: Error) => setFault(error.message));
  }, []);
  const growing = runs.some((run) => run.finished < run.planned);
  useEffect(() => {
    const look = () => void (document.hidden || get<Run[]>("/api/runs").then(setRuns, () => undefined));
    look();
    if (!growing) return undefined;
    const again = setInterval(look, PAUSE);
    return () => clearInterval(again);
  }, [growing]);
  if (!about) return <p role="status">{fault || "Asking troth serve…"}</p>;

  const submit = async (target?: number | "each") => {
    const values = new FormData(form.current!);
    const field = (name: string) => String(values.get(name) ?? "");
    const pair = field("text_pair");
    const asked: Asked = { text: field("text"), text_pair: pair === "" ? null : pair, units: field("units"),
      segments: field("segments") || "first", masking: field("masking") };
    const body = { ...asked, explainers: chosen, target: target ?? (field("target") || "predicted") };
    const [model, other] = [field("model"), field("other")];
    work.current?.abort();
    const mine = new AbortController();
    work.current = mine;
    setFault("");
    setStatus("asked");
    try {
      const models = other
        ? (await ask<{ models: Answer["models"] }>("/api/compare", { ...body, models: [model, other] }, setStatus, mine.signal)).models
        : [{ model, explanations: await ask<Explanation[]>("/api/explain", { ...body, model }, setStatus, mine.signal) }];
      setAnswer({ serial: performance.now(), asked, models });
    } catch (error) {
      if ((error as Error).name !== "AbortError") setFault((error as Error).message);
    } finally {
      if (work.current === mine) {
        work.current = null;
        setStatus("");
      }
    }
  };
  const toggle = (name: string) => setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  const labels = [...new Set(about.models.flatMap((model) => model.labels))];
  const classes = about.models.some((model) => !model.continues);
  return (
    <>
      <header class="top"><div>
        <h1>troth <small>{about.version}</small></h1>
        <nav aria-label="Parts of this page">
          <a href="#ask">Explain</a>
          {answer && <a href="#answer">Answer</a>}
          {runs.length > 0 && <a href="#runs">Runs</a>}
        </nav>
      </div></header>
      <main>
        <form id="ask" ref={form} class="ask" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
          <label class="whole">Text
            <textarea name="text" rows={3} required maxLength={about.limits.text} placeholder="Type or paste a text"
              onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(); }} />
          </label>
          <details><summary>Second text, for models that read two</summary>
            <label class="whole">Second text <textarea name="text_pair" rows={2} maxLength={about.limits.text} /></label>
            <label>Explain <select name="segments"><option value="first">the first text</option><option value="both">both texts</option></select></label>
          </details>
          <div class="filters">
            <label>Model <select name="model">{about.models.map(({ name }) => <option key={name}>{name}</option>)}</select></label>
            {about.models.length > 1 && (
              <label>Compare with <select name="other"><option value="">no other</option>
                {about.models.map(({ name }) => <option key={name}>{name}</option>)}</select></label>
            )}
            {classes && <label>Class <select name="target"><option value="predicted">the predicted one</option>
              {labels.map((label) => <option key={label}>{label}</option>)}</select></label>}
            <label>Units <select name="units">{["word", "token", "sentence", "passage"].map((unit) => <option key={unit}>{unit}</option>)}</select></label>
            <label>Erase by <select name="masking" defaultValue="mask_token">
              {about.maskings.map(({ name }) => <option key={name} selected={name === "mask_token"}>{name}</option>)}</select></label>
          </div>
          <fieldset><legend>Explainers, at most {about.limits.explainers}</legend>
            <div class="boxes">
              {about.explainers.map(({ name, summary }) => (
                <label key={name} title={summary}>
                  <input type="checkbox" checked={chosen.includes(name)} disabled={!chosen.includes(name) && chosen.length >= about.limits.explainers}
                    onChange={() => toggle(name)} /><span>{name}</span>
                </label>
              ))}
            </div>
          </fieldset>
          <div class="actions">
            <button class="primary" type="submit" disabled={chosen.length === 0}>Explain</button>
            {status && <button class="quiet" type="button" onClick={() => work.current?.abort()}>Cancel</button>}
            <span role="status" class="muted">{status || "Ctrl + Enter explains, too."}</span>
          </div>
          {fault && <p role="alert" class="warning">{fault}</p>}
        </form>
        {answer && (
          <div id="answer">
            <div class={answer.models.length > 1 ? "pair" : ""}>
              {answer.models.map(({ model, explanations }, place) => (
                <ModelAnswer key={`${answer.serial} ${place}`} model={model} asked={answer.asked} explanations={explanations} onToken={(token) => void submit(token)} />
              ))}
            </div>
            <ColorLegend signedToo exact />
          </div>
        )}
        {runs.length > 0 && (
          <section id="runs"><h2>Runs</h2>
            <ul class="runs">{runs.map((run) => {
              const name = run.run.split("/").filter(Boolean).at(-1) ?? run.run;
              return <li key={run.run}><a href={`/runs/${encodeURIComponent(name)}`}>{name}</a>{" "}
                <span class="muted">{run.problem || `${run.finished} of ${run.planned} cells finished`}</span></li>;
            })}</ul>
          </section>
        )}
      </main>
    </>
  );
}
