import { useEffect, useRef, useState } from "preact/hooks";
import { type About, type Asked, type Attribution, explain, get, post, type Run } from "./api";
import { ColorLegend } from "./components/ColoredText";
import { ModelAnswer } from "./components/ModelAnswer";

type Answer = { asked: Asked; models: { model: string; explanations: Attribution[] }[] };

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
    get<About>("/api/about").then(setAbout, (error: Error) => setFault(error.message));
    get<Run[]>("/api/runs").then(setRuns, () => setRuns([]));
  }, []);
  if (!about) return <p role="status">{fault || "Asking troth serve…"}</p>;

  const submit = async (target?: number) => {
    const values = new FormData(form.current!);
    const field = (name: string) => String(values.get(name) ?? "");
    const pair = field("text_pair");
    const asked: Asked = { text: field("text"), text_pair: pair === "" ? null : pair, units: field("units"), segments: "first", masking: field("masking") };
    const body = { ...asked, explainers: chosen, target: target ?? (field("target") || "predicted") };
    const [model, other] = [field("model"), field("other")];
    work.current?.abort();
    const mine = new AbortController();
    work.current = mine;
    setFault("");
    setStatus("asked");
    try {
      const models = other
        ? (await post<{ models: Answer["models"] }>("/api/compare", { ...body, models: [model, other] }, mine.signal)).models
        : [{ model, explanations: await explain({ ...body, model }, setStatus, mine.signal) }];
      setAnswer({ asked, models });
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
  return (
    <>
      <header><h1>troth <small>{about.version}</small></h1></header>
      <main>
        <form ref={form} class="ask" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
          <label class="whole">Text
            <textarea name="text" rows={4} required maxLength={about.limits.text}
              onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(); }} />
          </label>
          <details><summary>Second text, for models that read two</summary>
            <label class="whole">Second text <textarea name="text_pair" rows={2} maxLength={about.limits.text} /></label>
          </details>
          <div class="filters">
            <label>Model <select name="model">{about.models.map(({ name }) => <option key={name}>{name}</option>)}</select></label>
            {about.models.length > 1 && (
              <label>Compare with <select name="other"><option value="">no other</option>
                {about.models.map(({ name }) => <option key={name}>{name}</option>)}</select></label>
            )}
            <label>Class <select name="target"><option value="predicted">the predicted one</option>
              {labels.map((label) => <option key={label}>{label}</option>)}</select></label>
            <label>Units <select name="units">{["word", "token", "sentence", "passage"].map((unit) => <option key={unit}>{unit}</option>)}</select></label>
            <label>Erase by <select name="masking" defaultValue="mask_token">
              {about.maskings.map(({ name }) => <option key={name} selected={name === "mask_token"}>{name}</option>)}</select></label>
          </div>
          <fieldset><legend>Explainers, at most {about.limits.explainers}</legend>
            <div class="boxes">
              {about.explainers.map(({ name, summary }) => (
                <label key={name} title={summary}>
                  <input type="checkbox" checked={chosen.includes(name)} disabled={!chosen.includes(name) && chosen.length >= about.limits.explainers}
                    onChange={() => toggle(name)} /> {name}
                </label>
              ))}
            </div>
          </fieldset>
          <p>
            <button type="submit" disabled={chosen.length === 0}>Explain</button>{" "}
            {status && <button type="button" onClick={() => work.current?.abort()}>Cancel</button>}{" "}
            <span role="status">{status}</span>
          </p>
          {fault && <p role="alert" class="warning">{fault}</p>}
        </form>
        {answer && (
          <>
            <div class={answer.models.length > 1 ? "columns" : ""}>
              {answer.models.map(({ model, explanations }, place) => (
                <ModelAnswer key={place} model={model} asked={answer.asked} attributions={explanations} onToken={(token) => void submit(token)} />
              ))}
            </div>
            <ColorLegend signedToo exact />
          </>
        )}
        {runs.length > 0 && (
          <section><h2>Runs</h2>
            <ul>{runs.map((run) => {
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
