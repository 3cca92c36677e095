// What Python writes (report/page_data.py, report/page_examples.py); docs/guide/report_page.md says it in words.

export interface Report {
  version: number;
  title: string;
  boards: Board[];
  tables: Table[];
  checks: Check[];
  provenance: Record<string, unknown>;
  unfinished: { done: number; planned: number } | null;
  glossary: Record<string, string>;
  styles: Record<string, { color: string; dash: string }>; // of explainers
}

export interface Check {
  title: string;
  answer: string[];
  lines: { name: string; at: number[]; values: number[] }[]; // p-values by share erased
  level: number;
  dots: { name: string; value: number | null; low: number | null; high: number | null }[];
  caption: string;
  notes: string[];
}

export interface Table {
  title: string;
  figure: string | null; // a picture as an address that holds it
  columns: { head: string; number: boolean }[];
  rows: { text: string; value: number | null }[][];
  notes: string[];
}

export interface Board {
  title: string;
  model: string;
  data: string;
  setting: string;
  examples: number;
  labels: string[];
  answer: string[];
  methods: string;
  explainers: Explainer[];
  metrics: Metric[];
  cells: (Cell | null)[][]; // [explainers][metrics]
  curves: { metric: string; kept: boolean; lines: Record<string, MeanCurve> }[];
  slider: string | null; // the metric whose erased inputs the examples show
  slider_explains_again: boolean; // what is left is explained at every step, so the order is not that of the first scores
  erasure: { metric: string; rows: { explainer: string; acu: Interval; racu: Interval }[] }[];
  agreement: { explainers: Matrix; metrics: Matrix | null };
  words: Record<string, Record<string, Word[]>>; // explainer -> class -> words
  performance: Performance | null;
  notes: { title: string; lines: string[] }[];
  seeds: number;
  example_metrics: string[];
}

export type Interval = [number | null, number | null, number | null];

export interface Explainer {
  name: string;
  short: string;
  meaning: string;
  ms: number | null;
  passes: number | null;
  best: boolean;
  useless: boolean;
}

export interface Metric {
  name: string;
  short: string;
  meaning: string;
  higher: boolean | null;
  decides: boolean;
  why_not: string;
  bounds: string;
  pitfalls: string;
  validity: { verdict: string; text: string; p: number | null; meaning: string } | null;
  diagnosticity: {
    value: number | null; low: number | null; high: number | null; won: number; tied: number; lost: number;
  } | null;
}

export interface Cell {
  value: number | null;
  low: number | null;
  high: number | null;
  letters: string;
  beats_random: boolean | null;
  examples: number;
  undefined: Record<string, number>;
  spread: number | null;
}

export interface MeanCurve {
  ratios: number[];
  mean: number[];
  low: number[];
  high: number[];
  kept: boolean;
  examples: number;
}

export interface Matrix {
  names: string[];
  values: (number | null)[][];
}

export interface Word {
  word: string;
  score: number;
  examples: number;
}

export interface Performance {
  examples: number;
  accuracy: number;
  low: number;
  high: number;
  calibration_error: number;
  calibration: { sure: number; right: number; examples: number }[];
  confusion: number[][] | null;
  labels: string[];
}

export interface Example {
  id: string;
  text: string;
  pair?: string;
  units: number[]; // gap, length, gap, length, ... in code points
  segments?: string;
  target: number;
  probabilities: number[];
  label?: number;
  truncated?: boolean;
  rationale?: number[];
  p?: number;
  agreement?: number;
  explanations: (Explanation | null)[]; // in the order of the board's explainers
  values: (number | null)[][]; // [explainers][example_metrics]
}

export interface Explanation {
  scores: string; // a letter per unit
  largest: number;
  units?: number[];
  segments?: string;
  target?: number;
  unsigned?: boolean; // how much a unit matters, not which way
  note?: string;
  erased_at?: string; // a letter per unit
  curve?: number[];
  curve_target?: number;
}
