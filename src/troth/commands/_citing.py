"""`troth explain --question`: reads passages and shows which ones support an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.commands import _options
from troth.core import reading, terminal
from troth.core.errors import TrothError
from troth.core.terminal import Console

# Not separated by commas, since file names may contain them.
Passages = Annotated[
    list[str] | None,
    typer.Option(
        help="Text files, one passage each; a single file is split at its blank lines. Patterns "
        "such as docs/*.txt work."
    ),
]

_OWN = ("masking", "tolerance", "choices", "generate", "prompt", "seed")  # options of cite, not of the model


def cite(
    question: str,
    passages: Sequence[str],
    answer: str | None,
    *,
    model: str,
    asked: Mapping[str, Any],
    masking: str | None,
    seed: int,
    device: str | None,
    html: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Reads the files, runs the model, and shows the result."""
    import troth
    from troth.models._endpoint import is_url
    from troth.report import cited_answer, export
    from troth.verbs.cite import GENERATE, example_of, reader_of

    options = {"device": device, "seed": seed, **asked}
    if "continuation" in options:
        raise TrothError("--continuation is for texts; pass the answer to a --question with --answer")
    if masking is not None:
        options["masking"] = masking
    texts = _read(passages)
    asker: Any = model
    cost = ""
    if is_url(model) and texts:
        own = {name: options.pop(name) for name in _OWN if name in options}
        written = {"generate": own.get("generate", GENERATE)} if answer is None else {"continuation": answer}
        asker, options = reader_of(model, own.get("prompt"), options, **written), own
        # Rounds: the whole prompt, without each passage, without others, without each sentence; and what is written.
        passes, rounds = sum(_passes(texts)) + (answer is None), 4 + (answer is None)
        cost = asker.expected(passes, [example_of(question, texts.values())], rounds=rounds)
    if dry_run:
        _print_expected(texts, cost, as_json)
        return
    if cost:
        terminal.echo(f"{asker.name}: {cost}", err=True)
    if html is not None:
        export.require_place(html)
    found = troth.cite(asker, question, texts, answer, **options)
    if html is not None:
        export.write_page(html, "What the answer rests on", [export.made_by(model), cited_answer.html(found)])
    if as_json:
        _options.print_json(found.to_dict())
        return
    console = Console()
    cited_answer.show(console, found)
    if cost:
        console.print(asker.spent, style="dim", markup=False)
    if html is not None:
        console.print(f"written to {html}", style="dim", markup=False, soft_wrap=True)


def _passes(passages: Mapping[str, str]) -> tuple[int, int]:
    """Forward passes: the whole prompt and erased passages, and at most those of erased sentences."""
    from troth.core.units import sentence_spans

    return len(passages) + 2, 1 + sum(len(sentence_spans(text)) for text in passages.values())


def _print_expected(passages: Mapping[str, str], cost: str, as_json: bool) -> None:
    """Prints a dry run: the expected number of forward passes, and what they cost if an endpoint is asked."""
    least, divided = _passes(passages)
    sentences = divided - 1
    if as_json:
        facts = {"passages": len(passages), "sentences": sentences, "passes": least, "passes_of_sentences": divided}
        _options.print_json({**facts, **({"expected": cost} if cost else {})})
        return
    terminal.echo(
        f"{len(passages):,} passages: {least:,} passes of the model, and at most {divided:,} for their {sentences:,} "
        "sentences; a few more where several passages are cited together"
    )
    if cost:
        terminal.echo(cost)


def _read(names: Sequence[str]) -> dict[str, str]:
    """The text of each passage by name, in the order of the given files; the files that match a pattern are sorted."""
    from troth.core.units import passage_spans

    if not names:
        raise TrothError("--question needs --passages: text files that the answer may rest on")
    paths: list[str] = []
    for name in names:
        matching = [name] if Path(name).exists() else sorted(glob(name))
        if not matching:
            raise TrothError(f"--passages {name}: there is no such file")
        paths += matching
    try:
        texts = {path: reading.text(path).lstrip("\ufeff") for path in paths}
    except UnicodeDecodeError:
        raise TrothError(f"--passages {', '.join(paths)}: a file is not UTF-8; save it as UTF-8") from None
    except IsADirectoryError as error:
        raise TrothError(
            f"--passages {error.filename}: it is a folder; name its files: {error.filename}/*.txt"
        ) from None
    except OSError as error:
        raise TrothError(f"--passages {error.filename}: {error.strerror}") from None
    if len(texts) > 1:
        return texts
    ((path, text),) = texts.items()
    return {f"{path}, {number}": text[slice(*span)] for number, span in enumerate(passage_spans(text), start=1)}
