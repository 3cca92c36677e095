"""Explains texts on the terminal by coloring their units."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from troth.commands import _citing, _options
from troth.commands._model_options import ALL, Asked, takes
from troth.core import reading, terminal
from troth.core.errors import TrothError
from troth.core.progress import expected as expected_time
from troth.core.terminal import Console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.types import Attribution
    from troth.models import TextClassifier


@takes(*ALL)
def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to explain; without any, the lines of standard input are explained."),
    ] = None,
    model: _options.Model = "embedded",
    explainer: Annotated[
        list[str] | None, "Explainers, such as lime,gradient; by default one that the model supports."
    ] = None,
    pair: Annotated[str | None, "The second text, for models that read two."] = None,
    segments: Annotated[str, "Which text is explained: first or both."] = "first",
    units: _options.Units = "word",
    target: _options.Targets = None,
    against: Annotated[
        str | None, "Explain why the target rather than this class; or why a continuation rather than this one."
    ] = None,
    masking: _options.OwnMasking = None,
    seed: _options.Seed = 0,
    device: _options.Device = None,
    html: Annotated[Path | None, "Write a self-contained HTML page here."] = None,
    interactions: Annotated[bool, "Which units act together: pairwise Shapley interaction values, as arcs."] = False,
    proof: Annotated[
        bool, "Erase each method's top words, and random ones, and show what the model then predicts."
    ] = True,
    data: Annotated[str | None, "Explain this data set, file or folder instead of texts."] = None,
    split: Annotated[str | None, "Split of the data."] = None,
    limit: Annotated[int, "Explain only the first examples of the data, this many; 0 takes all."] = 0,
    text: _options.TextColumn = None,
    text_pair: _options.PairColumn = None,
    label: _options.LabelColumn = None,
    only: Annotated[
        str | None, "Keep only the examples that the model gets wrong, or right; --limit counts these."
    ] = None,
    ids: Annotated[list[str] | None, "Only these examples of the data, by their ids: 12,17."] = None,
    csv: Annotated[Path | None, "Write a csv file: a row per unit, with text, gold and predicted class."] = None,
    record: Annotated[Path | None, "Keep a record of every decision in this folder; see troth verify."] = None,
    key_file: _options.KeyFile = None,
    dry_run: _options.DryRun = False,
    question: Annotated[
        str | None, "A question that a language model answers; shows on which of the --passages the answer rests."
    ] = None,
    passages: _citing.Passages = None,
    answer: Annotated[str | None, "The answer to --question; without one the model writes it."] = None,
    asked: Asked = dict,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Colors the words (or other units) that made the model decide, and shows how faithful that is.

    Example: troth explain "Not a bad film, but far too long." -e leave_one_out,integrated_gradients

    A file, with a record of every decision: troth explain --data claims.csv --limit 20 --record decisions

    Your own method: troth explain "A dull film." -e my_file.py:MyExplainer

    Every label that a multi-label model predicts: troth explain "…" -m my-model --target above_threshold

    A language model: troth explain "A dull film." -m my-llm --prompt "Review: {text} It is" --class-words good,bad

    Words that act together: troth explain "Not a bad film." --interactions

    A model behind a server: troth explain "A dull film." -m http://localhost:8000/v1#my-llm --prompt … --class-words …

    What it writes, token by token: troth explain "Who wrote Faust?" -m my-llm --generate 40 --target each

    Which passages it rests on: troth explain -m my-llm --question "Who wrote Faust?" --passages docs/*.txt
    """
    import troth
    from troth.core.results import Attributions
    from troth.core.types import Example
    from troth.data import load_data
    from troth.explainers._interactions import ShapleyInteractions
    from troth.models import load_named
    from troth.models.targets import EACH
    from troth.report import explanation, explanation_screen, export, matrix
    from troth.verbs import records, selection
    from troth.verbs.methods import EXPLAINERS, usual_explainer
    from troth.verbs.proof import masking_of_proof, passes_of

    _options.quieten()
    if question is not None:
        alone = {"explainer": explainer, "pair": pair, "target": target, "against": against, "data": data}
        for name, value in (alone | {"record": record}).items():
            if value is not None:
                raise TrothError(f"--{name} cannot be used with --question; leave it out")
        _citing.cite(
            question, [*(passages or ()), *(texts or ())], answer, model=model, asked=asked(), masking=masking,
            seed=seed, device=device, html=html, dry_run=dry_run, as_json=as_json,
        )  # fmt: skip
        return
    for name, value in {"passages": passages, "answer": answer}.items():
        if value:
            raise TrothError(f"--{name} needs --question; pass the question, or leave it out")
    _options.one_of("--segments", segments, "first", "both")
    if only is not None:
        _options.one_of("--only", only, "wrong", "right")
    _options.require("--limit", limit, limit >= 0, "0 or more")
    methods = EXPLAINERS.by_name([*(explainer or ()), *([ShapleyInteractions()] if interactions else [])])
    columns: dict[str, Any] = {"text": text, "text_pair": text_pair, "label": label}
    notes: tuple[str, ...] = ()
    if data is not None:
        if texts or pair is not None:
            raise TrothError(f"--data {data} cannot be combined with a text; leave one of them out")
        # Labels are only needed to explain the gold class or to compare predictions with it.
        labelled = target == ["gold"] or only is not None
        first = None if only is not None or ids else limit or None
        found = load_data(data, split, first, unlabelled=not labelled, **columns)
        if not found:
            raise TrothError(f"{data} contains no examples, so there is nothing to explain")
        examples, notes = list(found), found.notes
    else:
        beside = {"only": only, "id": ",".join(ids) if ids else None}
        for name, value in {"split": split, "limit": limit or None, **columns, **beside}.items():
            if value is not None:
                raise TrothError(f"--{name.replace('_', '-')} {value} needs --data; name the data, or leave it out")
        given = texts or _lines()
        if not any(each.strip() for each in given):
            raise TrothError("the text is empty, so there is nothing to explain")
        if pair is not None and len(given) != 1:
            raise TrothError(f"--pair needs exactly one text, not {len(given)}")
        examples = [Example(str(position), each, pair) for position, each in enumerate(given)]
    _options.spare_threads(model)
    for place in filter(None, (html, csv)):
        export.require_place(place)
    if key_file is not None and record is None:
        raise TrothError("--key-file signs records; name the folder of the records with --record")
    key = None if key_file is None else records.read_key(key_file)
    if record is not None:
        _require_folder(record)
    model_options = asked()
    if against is not None and model_options.keys() & {"continuation", "generate"}:
        model_options["against"], against = against, None  # with a continuation, --against is another continuation
    classifier = load_named(model, device=device, **model_options)
    if data is not None and ids:
        examples = selection.of_ids(found, ids)
    if data is not None and only is not None:
        chosen_from = found if not ids else replace(found, examples=examples)
        examples = selection.decided(classifier, chosen_from, wrong=only == "wrong", limit=limit or None)
        if not examples:
            raise TrothError(f"{classifier.name} gets no example of {data} {only}, so there is nothing to explain")
    methods = methods or EXPLAINERS.by_name([usual_explainer(classifier)])
    chosen = _options.targets(target, classifier.labels)
    by = "mask_token" if masking is None else masking
    options: dict[str, Any] = {"target": chosen, "masking": by, "seed": seed, "against": against}
    if interactions and (chosen == EACH or record is not None):
        clash = "--target each" if chosen == EACH else "--record"
        raise TrothError(f"--interactions shows the pairs of one target in the terminal; leave {clash} out")
    if chosen == EACH and record is not None:
        raise TrothError("--record keeps one decision per text; leave --target each out")
    if dry_run or classifier.spent:
        read: dict[str, Any] = {"units": units, "segments": segments}
        expected = passes_of(classifier, examples, methods, **read, proof=proof and chosen != EACH)
        # Each method reads the whole texts first, then erased ones; so does the proof.
        cost = classifier.expected(sum(expected.values()), examples, rounds=2 * len(expected))
        if dry_run:
            seconds = None
            if not cost and not model_options.keys() & {"continuation", "generate"} and chosen != EACH:
                from troth.sweep.estimate import seconds_to_explain

                seconds = seconds_to_explain(classifier, examples, methods, expected, **read)
            print_expected(expected, len(examples), seconds, cost, as_json)
            return
        terminal.echo(f"{classifier.name}: {cost}", err=True)
    by_method: dict[str, Any] = troth.explain(classifier, examples, methods, units, segments=segments, **options)
    written: Path | None = None
    by_text: list[Any]
    sections: Any = explanation.sections
    show: Any = explanation_screen.show
    if chosen == EACH:
        by_text = list(zip(*(found.matrices() for found in by_method.values()), strict=True))
        sections, show = matrix.sections, explanation_screen.show_matrices
    else:
        if proof:
            proving = masking_of_proof(classifier, masking)
            by_method = troth.prove(classifier, by_method, masking=proving)
            if masking is not None and proving.partition("(")[0] != masking.partition("(")[0]:
                notes += (f"the proof erases by {proving}: {masking} erases otherwise every time",)
        by_text = list(zip(*by_method.values(), strict=True))
        above = f"no label is above the threshold {classifier.threshold:g}"
        why = above if chosen == "above_threshold" else "no label is given"
        explained = {row[0].example.id for row in by_text}
        notes += tuple(f"text {example.id}: {why}" for example in examples if example.id not in explained)
    if html is not None:
        export.write_page(html, "What was written" if chosen == EACH else "Explanations",
                          [export.made_by(classifier.name, data), *sections(by_text)])  # fmt: skip
    if csv is not None:
        export.write(csv, Attributions(each for row in by_text for each in row).to_csv().encode())
    if record is not None:
        settings = {"units": units, "segments": segments, **options}
        written = keep_records(record, by_text, classifier, model, model_options, settings, key)
    if as_json:
        _options.print_json([shown.to_dict() for row in by_text for shown in row])
        return
    console = Console()
    for note in notes:
        console.print(note, style="dim", markup=False)
    show(console, by_text)
    if classifier.spent:
        console.print(classifier.spent, style="dim", markup=False)
    for path in filter(None, (html, csv, written)):
        console.print(f"written to {path}", style="dim", markup=False, soft_wrap=True)


def print_expected(expected: Mapping[str, int], texts: int, seconds: float | None, cost: str, as_json: bool) -> None:
    """Prints a dry run: the expected number of model passes, and their time and cost if known."""
    total = sum(expected.values())
    if as_json:
        counted = {"expected": cost} if cost else {}
        facts = {"texts": texts, "passes": total, "by_method": dict(expected), "seconds": seconds}
        _options.print_json({**facts, **counted})
        return
    terminal.echo(f"{texts:,} {'text' if texts == 1 else 'texts'}: about {total:,} passes of the model")
    for name, passes in expected.items():
        terminal.echo(f"  {name}: {passes:,}")
    if seconds is not None:
        terminal.echo(f"time: {expected_time(seconds)}")
    if cost:
        terminal.echo(cost)


def _lines() -> list[str]:
    try:
        given = [] if sys.stdin is None or sys.stdin.isatty() else reading.standard_input()
        lines = [line.rstrip("\n") for line in given if line.strip()]
    except UnicodeDecodeError:
        raise TrothError("standard input is not UTF-8; convert it: iconv -f latin1 -t utf-8") from None
    except (OSError, ValueError):  # if standard input is closed
        lines = []
    if not lines:
        raise TrothError('no text given; pass one: troth explain "A fine film." or pipe lines in')
    return lines


def _require_folder(folder: Path) -> None:
    """Raises an error if records cannot be written to a folder, before any work; does not create it."""
    try:
        if folder.exists() and not folder.is_dir():
            raise TrothError(f"--record {folder} is a file; name a folder")
        nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise TrothError(f"--record {folder}: {error.strerror}; name another folder") from None
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise TrothError(f"--record {folder}: nothing can be written to {nearest}; name another folder")


def keep_records(
    folder: Path,
    by_text: Sequence[Sequence[Attribution]],
    model: TextClassifier,
    source: str,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any],
    key: bytes | None = None,
) -> Path:
    """Writes the records, and a page of all records in the folder; returns the path of the page."""
    from troth.report import record_page
    from troth.sweep.machine import versions
    from troth.verbs import proof, records
    from troth.verbs.comparison import sentence

    proofs = [attribution.proof for row in by_text for attribution in row if attribution.proof is not None]
    proving = {"ratio": proof.RATIO, "choices": proof.CHOICES, "masking": proofs[0].masking} if proofs else None
    run = {"id": uuid4().hex, "texts": len({row[0].example.id for row in by_text})}
    # If there are several targets, each record has its own; so has a record of one label, however it was chosen.
    several = isinstance(settings.get("target"), list) or model.outputs == "labels"
    used = versions()
    decisions = [
        records.decision(
            row, model, source=source, options=asked, run=run, versions=used, comparison=sentence(row), key=key,
            settings={**settings, **({"target": row[0].target} if several else {}), "proof": proving},
        )
        for row in by_text
    ]  # fmt: skip
    records.write(folder, decisions)
    return record_page.write(folder)
