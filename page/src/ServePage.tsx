import { useEffect, useState } from "preact/hooks";
import { type About, type Cited, get, type Run } from "./api";
import { AskPassages } from "./components/AskPassages";
import { AskText, type TextAnswer } from "./components/AskText";
import { CitedView } from "./components/CitedView";
import { ColorLegend } from "./components/ColoredText";
import { ModelAnswer } from "./components/ModelAnswer";
import { Saving } from "./components/Saving";
import { useWork } from "./work";

const PAUSE = 5000; // milliseconds between two looks at runs that are being written

/** Type a text and see what a model relied on; or a question, passages and an answer, and see which passages are behind it. */
export function ServePage() {
  const [about, setAbout] = useState<About | null>(null);
  const [runs, setRuns] = useState<Run[]>([]);
  const [answer, setAnswer] = useState<TextAnswer | null>(null);
  const [cited, setCited] = useState<Cited | null>(null);
  const [asksPassages, setAsksPassages] = useState(false);
  // What an earlier request gave must not stand below the error of this one.
  const work = useWork(() => (asksPassages ? setCited(null) : setAnswer(null)));
  useEffect(() => {
    const place = document.getElementById("answer");
    if (place && place.getBoundingClientRect().top > 0.8 * innerHeight) place.scrollIntoView({ block: "start" });
  }, [answer, cited]);
  useEffect(() => {
    get<About>("/api/about").then(setAbout, (error: Error) => work.setFault(error.message));
  }, []);
  const growing = runs.some((run) => run.finished < run.planned);
  useEffect(() => {
    const look = () => void (document.hidden || get<Run[]>("/api/runs").then(setRuns, () => undefined));
    look();
    if (!growing) return undefined;
    const again = setInterval(look, PAUSE);
    return () => clearInterval(again);
  }, [growing]);
  if (!about) return <p role="status">{work.fault || "Loading…"}</p>;

  const shown = asksPassages ? cited : answer;
  const turn = (passages: boolean) => {
    work.cancel();
    work.setFault("");
    setAsksPassages(passages);
  };
  return (
    <>
      <header class="top"><div>
        <h1>troth <small>{about.version}</small></h1>
        <nav aria-label="Parts of this page">
          <a href="#ask">Explain</a>
          {shown && <a href="#answer">Answer</a>}
          {runs.length > 0 && <a href="#runs">Runs</a>}
        </nav>
      </div></header>
      <main>
        {about.models.some(({ cites }) => cites) && (
          <div class="modes" role="group" aria-label="What is explained">
            <button type="button" aria-pressed={!asksPassages} onClick={() => turn(false)}>A text</button>
            <button type="button" aria-pressed={asksPassages} onClick={() => turn(true)}>Passages behind an answer</button>
          </div>
        )}
        <AskText {...{ about, work }} hidden={asksPassages} onAnswer={setAnswer} />
        {asksPassages && <AskPassages {...{ about, work }} onAnswer={setCited} />}
        {shown && (
          <div id="answer" class={work.status ? "stale" : ""} aria-busy={work.status !== ""}>
            {asksPassages ? cited && <CitedView cited={cited} /> : answer && <TextAnswers answer={answer} />}
          </div>
        )}
        {runs.length > 0 && (
          <section id="runs"><h2>Runs</h2>
            <ul class="runs">{runs.map((run) => {
              const name = run.run.split("/").filter(Boolean).at(-1) ?? run.run;
              return <li key={run.run}><a href={`/runs/${encodeURIComponent(name)}`}>{name}</a>{" "}
                <span class="muted">{run.problem || `${run.finished} of ${run.planned} cells are finished`}</span></li>;
            })}</ul>
          </section>
        )}
      </main>
    </>
  );
}

/** One model's explanations, or those of two side by side. */
function TextAnswers({ answer: { serial, asked, compared, again } }: { answer: TextAnswer }) {
  return (
    <>
      <div class={compared.models.length > 1 ? "pair" : ""}>
        {compared.models.map((one) => <ModelAnswer key={`${serial} ${one.model}`} {...one} asked={asked} onToken={again} />)}
      </div>
      <ColorLegend signedToo exact />
      <Saving name="troth-explanations" result={compared} />
    </>
  );
}
