"""The replies of the API, as OpenAPI documents them; the JSON itself is that of the command line.

The fields of a dataclass are taken from there: their types as represented in JSON, and the comments next to them as
their descriptions. Fields that exist only in the JSON are declared here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import reduce
from inspect import getsource
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from troth.core.cited import CitationProof, CitedAnswer, CitedPart
from troth.core.outputs import Outputs
from troth.core.proof import Proof
from troth.core.types import Attribution, Encoding, Example
from troth.metrics import Summary
from troth.models import TextClassifier
from troth.report.board import Leaderboard
from troth.validity.stamp import Stamp

Number = float | None  # null if undefined
# No tuples, because OpenAPI 3.1 and FastAPI disagree on their schema.
Span = Annotated[list[int], Field(min_length=2, max_length=2)]
PromptPart = Annotated[list[int | str | None], Field(min_length=2, max_length=2)]
_COMMENT = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)


def _reply(name: str, about: str, /, *sources: tuple[type, str], **own: Any) -> type[BaseModel]:
    """Creates a model of a reply: the named fields of each source, and its own fields, given as a type, a type and its
    description, or a type and a default.
    """
    declared: dict[str, Any] = {}
    for source, names in sources:
        hints, comments = get_type_hints(source), dict(_COMMENT.findall(getsource(source)))
        for each in names.split():
            meaning = comments.get(each, "").replace("None", "null")
            sentence = f"{meaning[0].upper()}{meaning[1:]}." if meaning else None
            declared[each] = (_as_json(hints[each]), Field(description=sentence))
    for each, kind in own.items():
        kind, meaning = kind if isinstance(kind, tuple) else (kind, None)
        declared[each] = (kind, Field(description=meaning)) if isinstance(meaning, str | None) else (kind, meaning)
    return create_model(name, __doc__=about, __config__=ConfigDict(extra="forbid"), **declared)


def _as_json(hint: Any) -> Any:
    """The type of a field as represented in JSON.

    >>> _as_json(tuple[float, ...]), _as_json(Mapping[str, int])
    (list[float | None], dict[str, int])
    """
    kind, parts = get_origin(hint), get_args(hint)
    if hint is float:
        return Number
    if kind is tuple:
        return list_of(_as_json(parts[0]))
    if kind is Mapping:
        return GenericAlias(dict, tuple(map(_as_json, parts)))
    return reduce(or_, map(_as_json, parts)) if kind in (Union, UnionType) else hint


def list_of(*kinds: Any) -> Any:
    """The type of a list of elements that have any of these types."""
    return GenericAlias(list, (reduce(or_, kinds),))


ProofReply = _reply(
    "ProofReply",
    "Probabilities of the target (of a model that gives values, the values), and what erasing did to them.",
    (Proof, " ".join(each.name for each in fields(Proof) if each.name != "random")),
    without_top=(Number, "Without the units that the explanation ranks highest."),
)
_SOURCES = (
    (Example, "id text text_pair label"),
    (Encoding, "unit_kind truncated"),
    (Attribution, "signed explainer model note"),
)
_EXPLAINED: Mapping[str, Any] = {
    "units": (list[str], "What is scored and erased, in reading order."),
    "spans": (list[Span], "Characters of each unit in its text."),
    "segments": (list[int], "Where each unit is: 0 text, 1 text_pair, 2 + i shot i of a prompt."),
    "outputs": (Outputs, "What the probabilities are: of classes, of labels, or values."),
    "threshold": Number,
    "seed": int,
    "prompt": (list[PromptPart], "A prompt's parts: its words, or the text inside it."),
    "continuation": (list[str], "The tokens that a language model wrote."),
}
ExplanationReply = _reply(
    "ExplanationReply",
    "One score per unit: how much it pushes toward the target.",
    *_SOURCES,
    (Attribution, "labels probabilities rest gap"),
    **_EXPLAINED,
    scores=(list[Number], "One per unit; null where undefined."),
    target=int,
    target_label=str,
    against=int | None,
    against_label=str | None,
    word=(Span | None, "Of a token classifier: the characters of the word whose label is explained."),
    proof=ProofReply | None,
)
TokenMatrix = _reply(
    "TokenMatrix",
    'Of a continuation, with the target "each": a row of scores for every token that was written.',
    *_SOURCES,
    **_EXPLAINED,
    targets=list[str],
    values=(list[Number], "Each token's log-probability."),
    scores=(list[list[Number]], "[tokens, units]"),
)
Explanations = list_of(ExplanationReply, TokenMatrix)
Refused = _reply(
    "Refused", "An explainer, or the proof, that this model or text does not allow.", explainer=str, error=str
)
OfModel = _reply(
    "OfModel",
    "The explanations of one model.",
    model=str,
    explanations=Explanations,
    comparison=(list[str], "Which method is most faithful here, or why that cannot be told: a sentence per target."),
    refused=list_of(Refused),
)
Page = (str, "All of it as a self-contained HTML page, to be saved.")
Compared = _reply("Compared", "The same explanations of one model or two.", models=list_of(OfModel), page=Page)
PassageReply = _reply(
    "PassageReply", "A passage; its score is by how much the log-probability of the answer falls without it.",
    number=int, name=str, text=str, cited=bool, score=Number,
)  # fmt: skip
SentenceReply = _reply("SentenceReply", "A sentence of a passage that matters.", passage=int, span=Span, text=str)
CitationProofReply = _reply(
    "CitationProofReply",
    "Log-probabilities without the cited passages, and without as many others.",
    (CitationProof, " ".join(each.name for each in fields(CitationProof) if each.name != "erased")),
    erased=(list[int], "Numbers of the passages, from 1."),
)
CitedPartReply = _reply(
    "CitedPartReply",
    "The whole answer, or one sentence of it; passages are numbered from 1.",
    (CitedPart, "text log_probability without_any repeated"),
    span=Span,
    cited=(list[int], "The passages it rests on, the most important one first."),
    scores=(list[Number], "One per passage."),
    sentence_scores=(list[Number], "One per sentence of the passages that matter."),
    proof=CitationProofReply,
)
Cited = _reply(
    "Cited",
    "Which passages an answer rests on; passages are numbered from 1.",
    (CitedAnswer, "question answer written undivided tolerance masking seed model passes"),
    cited=(list[int], "The passages that the whole answer rests on."),
    passages=list_of(PassageReply),
    sentences=list_of(SentenceReply),
    whole=CitedPartReply,
    parts=(list_of(CitedPartReply), "One per sentence of the answer."),
    divided=(list[int], "The passages whose sentences were asked about."),
    page=Page,
)
Erased = _reply(
    "Erased",
    "What the model says of the whole text, and of what each row of `keep` leaves.",
    (TextClassifier, "labels"),
    outputs=Outputs,
    units=list[str],
    spans=list[Span],
    segments=list[int],
    whole=(list[Number], "The whole text's probabilities, one per label."),
    probabilities=(list[list[Number]], "[rows of keep, labels]"),
    strongest=(list[int], "The class that each row would get."),
    note=str,
)
ServedModel = _reply(
    "ServedModel",
    "A model that can be chosen.",
    (TextClassifier, "name labels"),
    outputs=Outputs,
    continues=(bool, "A language model whose continuation is explained."),
    cites=(bool, "A language model that can be asked which passages an answer rests on."),
    threshold=Number,
    fingerprint=str,
)
Named = _reply("Named", "An entry of the catalog.", name=str, summary=str)
Most = _reply(
    "Most",
    "How much one request may ask for.",
    text=(int, "Characters."),
    units=int,
    explainers=int,
    rows=(int, "Rows of keep."),
    passages=int,
    tokens=(int, "Tokens that a model may write."),
)
About = _reply(
    "About",
    "What is served.",
    version=str,
    models=list_of(ServedModel),
    explainers=(list_of(Named), "Those that a request may name."),
    maskings=list_of(Named),
    limits=Most,
    run=(str | None, "The run that was opened on the command line."),
)
Run = _reply(
    "Run",
    "How far a run is; one that cannot be read has a problem and no numbers.",
    run=(str, "Its folder."),
    problem=str,
    created=str,
    models=(list[str], Field([])),
    data=(list[str], Field([])),
    seeds=(list[int], Field([])),
    planned=(int, Field(0, description="Cells: explanations, metrics and checks.")),
    **dict.fromkeys(("finished", "failed", "bytes"), (int, Field(0))),
)
MeasuredReply = _reply(
    "MeasuredReply",
    "One metric of one explainer, with the 95 % interval over examples.",
    (Summary, "value low high seeds"),
    undefined=(dict[str, int], "Why, and of how many examples."),
    group=(str, "A shared letter: no significant difference."),
    beats_random=bool | None,
    examples=int,
    seed_spread=Number,
    validity=str,
)


class BoardRow(BaseModel):
    """One explainer; each metric under its own name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, MeasuredReply]  # type: ignore[valid-type]  # it is derived

    explainer: str
    seconds: float | None = Field(description="Per example.")
    passes: float | None = Field(description="Forward and backward rows per example.")


Validity = _reply(
    "Validity",
    "Whether what a metric erases is still an input as the model knows them.",
    (Stamp, "p why"),
    verdict=str,
    smallest_p=Number,
)
Board = _reply(
    "Board",
    "The leaderboard of one model and data set.",
    (Leaderboard, "model data examples failures skipped"),
    clusters=(int, "Independent examples: copies of a text, and a named group, count once."),
    rows=list[BoardRow],
    answer=(list[str], "The result in words."),
    validity=GenericAlias(dict, (str, Validity)),
)
Problem = _reply("Problem", "Why there is no result, in one line.", error=str)
Queued = _reply("Queued", "The event `queued`.", ahead=(int, "Requests that came before and are not done."))
ProgressReply = _reply(
    "ProgressReply",
    "The event `progress`, at most ten times per second.",
    explainer=str,
    done=(int, "Explainers that are done."),
    of=int,
    rows=(int, "Erased inputs that the model has been asked about."),
)
Failed = _reply("Failed", "The event `error`.", error=str, status=Literal[422, 500, 503, 504])
