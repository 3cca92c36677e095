/** Three decimals, a real minus sign, "–" where undefined. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const near = (value > 0.995 && value < 1) || (value > 0 && value < 0.005);
  return `${(100 * value).toFixed(near ? 1 : 0)} %`;
}

export function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${value.toPrecision(2)}`.replace("-", "−");
}

/** A token that is white space is shown in quotes. */
export function tokenName(token: string): string {
  return token.trim() === "" ? JSON.stringify(token) : token;
}

export function labelOf(labels: string[], place: number | undefined): string {
  return place === undefined ? "–" : (labels[place] ?? String(place));
}

// Okabe and Ito's colors, which people with any kind of color blindness tell apart; dashes tell them apart in print.
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

export interface Look {
  color: string;
  dash: string;
}

const looks: Record<string, Look> = {};

/** Explainers look the same in all figures; the report says how. */
export function learn(styles: Record<string, Look>): void {
  Object.assign(looks, styles);
}

export function look(place: number, name = ""): Look {
  return looks[name] ?? {
    color: COLORS[place % COLORS.length] ?? "currentColor",
    dash: DASHES[Math.floor(place / COLORS.length) % DASHES.length] ?? "",
  };
}
