import { useRef, useState } from "preact/hooks";
import { type About, ask, type Asked, type Compared } from "../api";
import type { Work } from "../work";
import { Actions, onKeys } from "./Actions";

const SAMPLE = "Not a single dull minute: the plot is absurd, the acting wooden, and I loved it anyway.";
const UNITS = ["word", "token", "sentence", "passage"];

/** What an answer was asked with, and how to ask the same for another target. */
export interface TextAnswer {
  serial: number;
  asked: Asked;
  compared: Compared;
  again: (target: number | "each") => void;
}

interface Props {
  about: About;
  work: Work;
  hidden: boolean;
  onAnswer: (answer: TextAnswer) => void;
}

/** A text, a model or two, and the explainers to run. */
export function AskText({ about, work, hidden, onAnswer }: Props) {
  const [text, setText] = useState("");
  const [model, setModel] = useState(about.models[0]!.name);
  const [other, setOther] = useState("");
  const [chosen, setChosen] = useState<string[]>(["integrated_gradients", "leave_one_out"]);
  const form = useRef<HTMLFormElement>(null);
  const models = about.models.filter(({ name }) => name === model || name === other);
  const labels = models[0]!.labels.filter((label) => models.every((one) => one.labels.includes(label)));
  const submit = (target?: number | "each") => {
    const values = new FormData(form.current!);
    const field = (name: string) => String(values.get(name) ?? "");
    const pair = field("text_pair");
    const asked: Asked = { text, text_pair: pair === "" ? null : pair, units: field("units"),
      segments: field("segments") || "first", masking: field("masking") };
    const body = { ...asked, explainers: chosen, target: target ?? (field("target") || "predicted"), models: other ? [model, other] : [model] };
    void work.run(async (signal, onProgress) =>
      onAnswer({ serial: performance.now(), asked, compared: await ask<Compared>("/api/compare", body, onProgress, signal), again: submit }));
  };
  const turn = (name: string) => {
    setModel(name);
    if (name === other) setOther("");
  };
  const toggle = (name: string) => setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  return (
    <form id={hidden ? undefined : "ask"} ref={form} class="ask" hidden={hidden} onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <label class="whole">Text
        <textarea name="text" rows={3} required maxLength={about.limits.text} placeholder="Type or paste a text" value={text}
          onInput={(event) => setText(event.currentTarget.value)} onKeyDown={onKeys} />
      </label>
      <details><summary>Second text, for models that read two</summary>
        <label class="whole">Second text <textarea name="text_pair" rows={2} maxLength={about.limits.text} /></label>
        <label>Explain <select name="segments"><option value="first">the first text</option><option value="both">both texts</option></select></label>
      </details>
      <div class="filters">
        <label>Model <select name="model" value={model} onChange={(event) => turn(event.currentTarget.value)}>
          {about.models.map(({ name }) => <option key={name}>{name}</option>)}</select></label>
        {about.models.length > 1 && (
          <label>Compare with <select name="other" value={other} onChange={(event) => setOther(event.currentTarget.value)}>
            <option value="">no other model</option>{about.models.filter(({ name }) => name !== model).map(({ name }) => <option key={name}>{name}</option>)}</select></label>
        )}
        {!models.some(({ continues }) => continues) && (
          <label>Class <select name="target" key={labels.join("\n")}><option value="predicted">the predicted class</option>
            {labels.map((label) => <option key={label}>{label}</option>)}</select></label>
        )}
        <label>Units <select name="units">{UNITS.map((unit) => <option key={unit}>{unit}</option>)}</select></label>
        <label>Erase by <select name="masking">
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
      {!hidden && <Actions send="Explain" example={() => setText(SAMPLE)} work={work} disabled={chosen.length === 0} />}
    </form>
  );
}
