import { useRef, useState } from "preact/hooks";
import { type About, ask, type Cited } from "../api";
import type { Work } from "../work";
import { Actions, onKeys } from "./Actions";

const QUESTION = "What is the secret word of the vault?";
const PASSAGES = `The vault lies below the old library. The secret word of the vault is marigold.

Penguins live in the south. They eat fish and cannot fly.

The library opens at nine and closes at noon on Sundays.`;
const ANSWER = "The secret word of the vault is marigold.";

interface Passage {
  name: string;
  text: string;
}

/** A question, passages and an answer: which passages does the answer rest on? */
export function AskPassages({ about, work, onAnswer }: { about: About; work: Work; onAnswer: (cited: Cited) => void }) {
  const [question, setQuestion] = useState("");
  const [pasted, setPasted] = useState("");
  const [answer, setAnswer] = useState("");
  const [files, setFiles] = useState<Passage[]>([]);
  const form = useRef<HTMLFormElement>(null);
  const passages = [...files, ...cut({ name: "pasted", text: pasted })];
  const add = async (chosen: FileList | null) => {
    const read = await Promise.all(Array.from(chosen ?? [], async (file) => ({ name: file.name, text: (await file.text()).trim() })));
    const filled = read.filter(({ text }) => text !== "");
    setFiles([...files, ...(filled.length === 1 && files.length === 0 ? cut(filled[0]!) : filled)]);
  };
  const submit = () => {
    const values = new FormData(form.current!);
    const body = { model: values.get("model"), question, passages: named(passages), answer: answer.trim() || null, masking: values.get("masking") };
    void work.run(async (signal, onProgress) => onAnswer(await ask<Cited>("/api/cite", body, onProgress, signal)));
  };
  const fill = () => {
    setQuestion(QUESTION);
    setPasted(PASSAGES);
    setAnswer(ANSWER);
  };
  return (
    <form id="ask" ref={form} class="ask" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <label class="whole">Question
        <textarea rows={1} required maxLength={about.limits.text} value={question} onInput={(event) => setQuestion(event.currentTarget.value)} onKeyDown={onKeys} />
      </label>
      <label class="whole">Passages, with a blank line between two
        <textarea rows={7} required={files.length === 0} value={pasted} onInput={(event) => setPasted(event.currentTarget.value)} onKeyDown={onKeys} />
      </label>
      <label class="whole">Or text files, each a passage; one file alone is cut at its blank lines{" "}
        <input type="file" multiple accept=".txt,.md,text/*" onChange={(event) => { void add(event.currentTarget.files); event.currentTarget.value = ""; }} />
      </label>
      {files.length > 0 && (
        <ul class="boxes" aria-label="Passages from files">{files.map((file, place) => (
          <li key={place}><button class="quiet" type="button" aria-label={`Remove ${file.name}`}
            onClick={() => setFiles(files.filter((_, other) => other !== place))}>{file.name} ✕</button></li>
        ))}</ul>
      )}
      <label class="whole">Answer; if this is empty, the model writes one
        <textarea rows={2} maxLength={about.limits.text} value={answer} onInput={(event) => setAnswer(event.currentTarget.value)} onKeyDown={onKeys} />
      </label>
      <div class="filters">
        <label>Model <select name="model">{about.models.filter(({ cites }) => cites).map(({ name }) => <option key={name}>{name}</option>)}</select></label>
        <label>Erase a passage by <select name="masking">
          {["delete", "mask_token"].map((name) => <option key={name}>{name}</option>)}</select></label>
        <span class="muted">{passages.length === 1 ? "1 passage" : `${passages.length} passages`}, at most {about.limits.passages}</span>
      </div>
      <Actions send="Find the passages" example={fill} work={work} disabled={passages.length === 0 || passages.length > about.limits.passages} />
    </form>
  );
}

/** A text cut at its blank lines. */
function cut({ name, text }: Passage): Passage[] {
  const parts = text.split(/\n\s*\n/).map((part) => part.trim()).filter(Boolean);
  return parts.map((part, place) => ({ name: name === "pasted" ? "" : `${name}, ${place + 1}`, text: part }));
}

/** Without names a list; with them an object, in which every name is another. */
function named(passages: Passage[]): string[] | Record<string, string> {
  if (passages.every(({ name }) => name === "")) return passages.map(({ text }) => text);
  const found: Record<string, string> = {};
  for (const { name, text } of passages) {
    let own = name || "pasted";
    for (let count = 2; own in found; count++) own = `${name || "pasted"} (${count})`;
    found[own] = text;
  }
  return found;
}
