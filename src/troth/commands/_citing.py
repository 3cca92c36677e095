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
    from troth.report import cited_answer, export

    options = {"device": device, "seed": seed, **asked}
    if "continuation" in options:
        raise TrothError("--continuation is for texts; pass the answer to a --question with --answer")
    if masking is not None:
        options["masking"] = masking
    texts = _read(passages)
    if dry_run:
        _print_expected(texts, as_json)
        return
    if html is not None:
        export.require_place(html)
    found = troth.cite(model, question, texts, answer, **options)
    if html is not None:
        export.write_page(html, "What the answer rests on", [export.made_by(model), cited_answer.html(found)])
    if as_json:
        _options.print_json(found.to_dict())
        return
    console = Console()
    cited_answer.show(console, found)
    if html is not None:
        console.print(f"written to {html}", style="dim", markup=False, soft_wrap=True)


def _print_expected(passages: Mapping[str, str], as_json: bool) -> None:
    """Prints a dry run: the expected number of forward passes."""
    from troth.core.units import sentence_spans

    sentences = sum(len(sentence_spans(text)) for text in passages.values())
    least, divided = len(passages) + 2, sentences + 1
    if as_json:
        facts = {"passages": len(passages), "sentences": sentences, "passes": least, "passes_of_sentences": divided}
        _options.print_json(facts)
        return
    terminal.echo(
        f"{len(passages):,} passages: {least:,} passes of the model, and at most {divided:,} for their {sentences:,} "
        "sentences; a few more where several passages are cited together"
    )


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
