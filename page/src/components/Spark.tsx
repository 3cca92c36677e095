/** How the probability moved from step to step, with a dot where the slider is. */
export function Spark({ values, step }: { values: number[]; step: number }) {
  const x = (place: number) => 2 + (96 * place) / Math.max(1, values.length - 1);
  const y = (value: number) => 26 - 24 * Math.min(1, Math.max(0, value));
  const here = Math.min(step, values.length - 1);
  return (
    <svg class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" aria-hidden="true">
      <line class="floor" x1="0" x2="100" y1="26" y2="26" />
      <polyline points={values.map((value, place) => `${x(place)},${y(value)}`).join(" ")} />
      <line class="dot" x1={x(here)} x2={x(here)} y1={y(values[here]!)} y2={y(values[here]!)} />
    </svg>
  );
}
