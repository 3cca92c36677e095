/** A name that may be broken after each of its words. */
export function Name({ of }: { of: string }) {
  return <>{of.split(/(?<=_)/).map((part, place) => (place === 0 ? part : [<wbr key={place} />, part]))}</>;
}
