"""Colors the units that made the model decide."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from troth.commands import _options
from troth.commands._model_options import ALL, Asked, takes
from troth.core import reading
from troth.core.errors import TrothError
from troth.core.terminal import Console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.types import Attribution
    from troth.models import TextClassifier


@takes(*ALL)
def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to explain; none reads lines from standard input.")
    ] = None,
    model: _options.Model = "embedded",
    explainer: Annotated[list[str] | None, "Methods: random,integrated_gradients(steps=50)."] = None,
    pair: Annotated[str | None, "The second text, for models that read two."] = None,
    segments: Annotated[str, "Which text is explained: first or both."] = "first",
    units: _options.Units = "word",
    target: _options.Targets = None,
    against: Annotated[str | None, "Explain why the target rather than this class."] = None,
    masking: _options.Masking = "mask_token",
    seed: _options.Seed = 0,
    device: _options.Device = None,
    html: Annotated[Path | None, "Write a self-contained HTML page here."] = None,
    interactions: Annotated[bool, "Which units act together: pairwise Shapley interaction values, as arcs."] = False,
    proof: Annotated[bool, "Erase each method's top words, and random ones, and show what the model then says."] = True,
    data: Annotated[str | None, "Explain this data set, file or folder in place of texts."] = None,
    split: Annotated[str | None, "Which part of the data."] = None,
    limit: Annotated[int, "At most this many examples of the data; 0 takes all."] = 0,
    text: _options.TextColumn = None,
    text_pair: _options.PairColumn = None,
    label: _options.LabelColumn = None,
    record: Annotated[Path | None, "Keep a record of every decision in this folder; see troth verify."] = None,
    key_file: _options.KeyFile = None,
    asked: Asked = dict,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Colors the units that made the model decide, and shows how faithful that is.

    Example: troth explain "Not a bad film, but far too long." -e leave_one_out,integrated_gradients

    A file, with a record of every decision: troth explain --data claims.csv --limit 20 --record decisions

    A method of your own: troth explain "A dull film." -e my_file.py:MyExplainer

    Every label of a multi-label model that holds: troth explain "…" -m my-model --target above_threshold

    A language model: troth explain "A dull film." -m my-llm --prompt "Review: {text} It is" --class-words good,bad

    Words that act together: troth explain "Not a bad film." --interactions

    A server's: troth explain "A dull film." -m http://localhost:8000/v1#my-llm --prompt … --class-words …

    What it writes, token by token: troth explain "Who wrote Faust?" -m my-llm --generate 40 --target each
    """
    import troth
    from troth.core.types import Example
    from troth.data import load_data
    from troth.explainers._interactions import ShapleyInteractions
    from troth.models import load_named
    from troth.models.targets import EACH
    from troth.report import explanation, explanation_screen, export, matrix
    from troth.verbs import records
    from troth.verbs.methods import by_name

    _options.quieten()
    _options.one_of("--segments", segments, "first", "both")
    _options.require("--limit", limit, limit >= 0, "0 or more")
    pairwise = [ShapleyInteractions()] if interactions else []
    methods = by_name([*(explainer or ([] if interactions else ["integrated_gradients"])), *pairwise])
    columns: dict[str, Any] = {"text": text, "text_pair": text_pair, "label": label}
    notes: tuple[str, ...] = ()
    if data is not None:
        if texts or pair is not None:
            raise TrothError(f"--data {data} goes without texts of your own; leave one of them out")
        # Classes are needed only where they are explained.
        found = load_data(data, split, limit or None, unlabelled=target != ["gold"], **columns)
        if not found:
            raise TrothError(f"{data} holds no examples: there is nothing to explain")
        examples, notes = list(found), found.notes
    else:
        for name, value in {"split": split, "limit": limit or None, **columns}.items():
            if value is not None:
                raise TrothError(f"--{name.replace('_', '-')} {value} goes with --data; name the data, or leave it out")
        given = texts or _lines()
        if not any(each.strip() for each in given):
            raise TrothError("the text is empty: there is nothing to explain")
        if pair is not None and len(given) != 1:
            raise TrothError(f"--pair goes with one text, not {len(given)}")
        examples = [Example(str(position), each, pair) for position, each in enumerate(given)]
    _options.spare_threads(model)
    if html is not None:
        export.require_place(html)
    if key_file is not None and record is None:
        raise TrothError("--key-file signs records; name their folder with --record")
    key = None if key_file is None else records.read_key(key_file)
    if record is not None:
        _require_folder(record)
    model_options = asked()
    classifier = load_named(model, device=device, **model_options)
    chosen = _options.targets(target, classifier.labels)
    options: dict[str, Any] = {"target": chosen, "masking": masking, "seed": seed, "against": against}
    if interactions and (chosen == EACH or record is not None):
        clash = "--target each" if chosen == EACH else "--record"
        raise TrothError(f"--interactions shows the pairs of one target, on the screen; leave {clash} out")
    if chosen == EACH and record is not None:
        raise TrothError("--record keeps one decision per text; leave --target each out")
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
            by_method = troth.prove(classifier, by_method)
        by_text = list(zip(*by_method.values(), strict=True))
        above = f"no label is above the threshold {classifier.threshold:g}"
        why = above if chosen == "above_threshold" else "no label is given"
        explained = {row[0].example.id for row in by_text}
        notes += tuple(f"text {example.id}: {why}" for example in examples if example.id not in explained)
    if html is not None:
        export.write_page(html, "What was written" if chosen == EACH else "Explanations", sections(by_text))
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
    for path in filter(None, (html, written)):
        console.print(f"written to {path}", style="dim", markup=False, soft_wrap=True)


def _lines() -> list[str]:
    try:
        given = [] if sys.stdin is None or sys.stdin.isatty() else reading.standard_input()
        lines = [line.rstrip("\n") for line in given if line.strip()]
    except UnicodeDecodeError:
        raise TrothError("standard input is not UTF-8; convert it: iconv -f latin1 -t utf-8") from None
    except (OSError, ValueError):  # standard input is closed
        lines = []
    if not lines:
        raise TrothError('no text given; pass one: troth explain "A fine film." or pipe lines in')
    return lines


def _require_folder(folder: Path) -> None:
    """One line for a folder that no record can be written to, before any work; nothing is made."""
    try:
        if folder.exists() and not folder.is_dir():
            raise TrothError(f"--record {folder}: it is a file; name a folder")
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
    """Writes the records, and the page of all records in the folder, whose path it gives."""
    from troth.report import record_page
    from troth.sweep.machine import versions
    from troth.verbs import proof, records
    from troth.verbs.comparison import sentence

    proofs = [attribution.proof for row in by_text for attribution in row if attribution.proof is not None]
    proving = {"ratio": proof.RATIO, "choices": proof.CHOICES, "masking": proofs[0].masking} if proofs else None
    run = {"id": uuid4().hex, "texts": len({row[0].example.id for row in by_text})}
    # One of several targets is its record's own; so is a label, however it was chosen.
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
