/** Everything that the run noted about itself, as nested lists. */
export function Provenance({ facts }: { facts: Record<string, unknown> }) {
  return (
    <dl class="facts">
      {Object.entries(facts).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd><Fact value={value} /></dd>
        </div>
      ))}
    </dl>
  );
}

function Fact({ value }: { value: unknown }) {
  if (Array.isArray(value)) {
    return value.every((one) => typeof one !== "object" || one === null)
      ? <>{value.map(String).join(", ")}</>
      : <ul>{value.map((one, place) => <li key={place}><Fact value={one} /></li>)}</ul>;
  }
  if (typeof value === "object" && value !== null) return <Provenance facts={value as Record<string, unknown>} />;
  return <code>{String(value ?? "–")}</code>;
}
