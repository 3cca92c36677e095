"""How often `troth.cite` finds a planted fact: one of eight passages says it, another one only uses its words.

    python scripts/measure/planted_facts.py FOLDER --passages TEXTS [--questions 100] [--device cuda]

FOLDER is a causal language model, TEXTS a file with a passage (a paragraph of Wikipedia, say) on each line. The facts
are made up, so no model knows them; the answer is the fact as a sentence. One JSON line per question, then the shares:
`first` (the right passage has the highest score), `sentence` (and within it the fact has), `alone` (it is the only one
cited), `proof` (without what is cited the answer loses more than without as many others), `distractor` (that passage
comes first), and `uncited`: with neither of the two in the passages, the answer is said to rest on none of them.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import troth
from troth.core.cited import CitedAnswer

COUNT, WORDS = 8, 70
TOWNS = ["Belford", "Carnmoor", "Dunmere", "Elsworth", "Fallowby", "Garstead", "Hexley", "Inverlow", "Kelbrook"]
FIRST = ["Ingrid", "Tomas", "Leonie", "Viktor", "Amara", "Quentin", "Rosalind", "Emeka", "Petra", "Joaquin"]
LAST = ["Falk", "Oduya", "Brennick", "Castellan", "Drummel", "Eisenhart", "Farrow", "Gatterby", "Holloway", "Kinsale"]
ROLES = ["chief engineer", "head librarian", "harbor master", "town clerk", "chief gardener", "choir director"]
COLORS = ["amber", "crimson", "violet", "silver", "turquoise", "scarlet", "emerald", "indigo"]


def fact_of(draw: random.Random) -> tuple[str, str, str]:
    """A fact, a question about it, and a text that has its words without saying it."""
    town, other = draw.sample(TOWNS, 2)
    person, role = f"{draw.choice(FIRST)} {draw.choice(LAST)}", draw.choice(ROLES)
    color, year = draw.choice(COLORS), draw.randrange(1700, 1990)
    return draw.choice([
        (f"The {role} of {town} is {person}.", f"Who is the {role} of {town}?",
         f"{person} has never been to {town}. The {role} of {other} is somebody else."),
        (f"The gate of {town} is painted {color}.", f"Which color is the gate of {town} painted?",
         f"The color {color} was painted over long ago. A gate near {town} was taken down."),
        (f"The bridge of {town} was opened in {year}.", f"When was the bridge of {town} opened?",
         f"In {year} nothing was opened. The bridge of {other} is older, as people in {town} know."),
    ])  # fmt: skip


def shortened(text: str) -> str:
    """Its first sentences, up to so many words."""
    return " ".join(text.split()[:WORDS]).rpartition(".")[0] + "."


def inserted(text: str, fact: str) -> str:
    """The text with the fact behind its first sentence."""
    first, stop, rest = text.partition(". ")
    return f"{first}. {fact} {rest}" if stop else f"{text} {fact}"


def cite(model: Any, tokenizer: Any, question: str, passages: list[str], answer: str) -> CitedAnswer:
    return troth.cite(model, question, passages, answer, tokenizer=tokenizer)


def asked(model: Any, tokenizer: Any, texts: list[str], number: int) -> dict[str, Any]:
    draw = random.Random(number)
    fact, question, distractor = fact_of(draw)
    plain = draw.sample(texts, COUNT)
    right, wrong = draw.sample(range(COUNT), 2)
    passages = list(plain)
    passages[right], passages[wrong] = inserted(plain[right], fact), inserted(plain[wrong], distractor)
    found, without = (cite(model, tokenizer, question, some, fact) for some in (passages, plain))
    first, proof = int(found.scores.argmax()), found.whole.proof
    own = [number for number, (place, _) in enumerate(found.sentences) if place == right]
    best = max(own, key=lambda place: found.whole.sentence_scores[place], default=None)
    assert proof.random_low is not None
    return {
        "number": number, "fact": fact, "first": first == right, "distractor": first == wrong,
        "sentence": best is not None and found.sentence(best).strip() == fact,
        "alone": found.cited == (right,), "proof": proof.without_cited < proof.random_low,
        "lost": found.whole.log_probability - proof.without_cited,
        "lost_random": found.whole.log_probability - proof.random_low, "uncited": not without.cited,
        "lost_without_fact": without.whole.log_probability - without.whole.proof.without_cited,
    }  # fmt: skip


def main() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no question is asked later")
    given = parser.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    texts = [shortened(text) for text in given.passages.read_text(encoding="utf-8").splitlines() if "." in text]
    texts = [text for text in texts if len(text.split()) > WORDS // 2]
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=getattr(torch, given.dtype))
    model = model.to(given.device).eval()
    begun, rows = time.perf_counter(), []
    for number in range(given.questions):
        if time.perf_counter() - begun > given.seconds:
            break
        rows.append(asked(model, tokenizer, texts, number))
        sys.stdout.write(json.dumps(rows[-1]) + "\n")
        sys.stdout.flush()
    names = ("first", "sentence", "alone", "proof", "distractor", "uncited")
    facts: dict[str, Any] = {"questions": len(rows), "seconds": round(time.perf_counter() - begun, 1)}
    facts |= {name: sum(row[name] for row in rows) for name in names}
    facts |= {f"median {name}": statistics.median(row[name] for row in rows) for name in ("lost", "lost_random")}
    sys.stdout.write(json.dumps(facts) + "\n")
    if folder := os.environ.get("OUT"):
        Path(folder, "planted_facts.json").write_text(json.dumps([facts, *rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
