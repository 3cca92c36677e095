// The API of `troth serve`; its explanations are those of `troth explain --json`.

export interface About {
  version: string;
  models: { name: string; labels: string[]; outputs: string; continues: boolean; cites: boolean }[];
  explainers: { name: string; summary: string }[];
  maskings: { name: string; summary: string }[];
  limits: { text: number; explainers: number; rows: number; passages: number };
  run: string | null;
}

export interface Attribution {
  text: string;
  text_pair: string | null;
  units: string[];
  unit_kind: string;
  spans: [number, number][];
  segments: number[];
  scores: (number | null)[];
  target: number;
  target_label: string;
  labels: string[];
  probabilities: number[];
  outputs: string;
  explainer: string;
  signed: boolean;
  note: string;
  prompt: [number | null, string][];
  continuation: string[];
  proof: {
    ratio: number; masking: string; probability: number; without_top: number; without_random: number;
    random_low: number; random_high: number;
  } | null;
}

/** What the model wrote, token by token: a row of scores for each. */
export interface TokenMatrix {
  text: string;
  unit_kind: string;
  units: string[];
  explainer: string;
  targets: string[];
  values: (number | null)[];
  scores: (number | null)[][];
}

export interface Asked {
  text: string;
  text_pair: string | null;
  units: string;
  segments: string;
  masking: string;
}

export type Explanation = Attribution | TokenMatrix;

/** The explanations of one model; which method is most faithful, or that it cannot be told; who refused, and why. */
export interface OfModel {
  model: string;
  explanations: Explanation[];
  comparison: string[];
  refused: { explainer: string; error: string }[];
}

export interface Compared {
  models: OfModel[];
  page: string; // all of it as a page of its own
}

/** What `troth explain --question --json` prints, and its page. */
export interface Cited {
  page: string;
}

export interface Erased {
  labels: string[];
  whole: number[];
  probabilities: number[][];
}

export interface Run {
  run: string;
  finished: number;
  planned: number;
  problem: string;
}

export async function get<T>(path: string): Promise<T> {
  return read<T>(await fetch(path));
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return read<T>(await send(path, body, "application/json", signal));
}

interface Progress {
  error?: string;
  ahead?: number;
  explainer?: string;
  done?: number;
  of?: number;
  rows?: number;
}

/** The result of a request that takes long; `onProgress` is told how far it is. Aborting the signal ends the work on the server, too. */
export async function ask<T>(path: string, body: unknown, onProgress: (line: string) => void, signal: AbortSignal): Promise<T> {
  const response = await send(path, body, "text/event-stream", signal);
  if (!response.body || !response.headers.get("content-type")?.startsWith("text/event-stream")) return read<T>(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server ended before the result; is troth serve still running?");
    const events = (rest + value).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const [, name, text] = /^event: (\w+)\ndata: (.*)$/s.exec(event) ?? [];
      if (!name || text === undefined) continue;
      const data = JSON.parse(text) as Progress;
      if (name === "result") return data as unknown as T;
      if (name === "error") throw new Error(data.error ?? "it failed");
      onProgress(name === "queued" ? waiting(data) : lineOf(data));
    }
  }
}

function waiting({ ahead }: Progress): string {
  return ahead ? `Waiting: ${ahead === 1 ? "1 request is" : `${ahead} requests are`} ahead` : "Sent";
}

function lineOf({ explainer, done, of, rows }: Progress): string {
  const place = explainer ? [`Running ${explainer} (${(done ?? 0) + 1} of ${of ?? 1})`] : [];
  return [...place, ...(rows ? [`${rows} inputs so far`] : [])].join(", ");
}

function send(path: string, body: unknown, accept: string, signal?: AbortSignal): Promise<Response> {
  const headers = { "content-type": "application/json", accept };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null });
}

async function read<T>(response: Response): Promise<T> {
  const data = (await response.json().catch(() => ({}))) as T & { error?: string };
  if (!response.ok) throw new Error(data.error ?? `the server answered ${response.status}`);
  return data;
}
