"""`cite`: which passages support an answer, and the proof (`cited_passages` defines the scores and what is cited)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from troth.core import arguments, catalog
from troth.core.cited import CitedAnswer, CitedPart
from troth.core.errors import TrothError
from troth.core.types import Encoding, Example
from troth.core.units import Span, join, sentence_spans
from troth.engine.prober import Prober
from troth.maskings import Masking
from troth.models import TextClassifier, load_model
from troth.models._prompt_reader import PromptReader
from troth.models.continuation import Continuation
from troth.models.remote_continuation import RemoteContinuation
from troth.verbs.cited_passages import Values, measured

PROMPT = "Answer the question with the help of these passages.\n\n{passages}\n\nQuestion: {question}"
GENERATE, TOLERANCE, CHOICES = 100, 0.1, 10
_BETWEEN = "\n\n"
_FIELDS = {"{passages}": "{text}", "{question}": "{text_pair}"}
_READS = "cite asks a causal language model, in memory or behind an endpoint that gives log-probabilities of a prompt"
Reader = Continuation | RemoteContinuation


@arguments.typed(
    passages="a list of texts, or a mapping of names to texts", masking="a name such as delete, or a Masking"
)
def cite(
    model: Any,
    question: str,
    passages: Iterable[str] | Mapping[str, str],
    answer: str | None = None,
    *,
    masking: str | Masking = "delete",
    tolerance: float = TOLERANCE,
    choices: int = CHOICES,
    generate: int = GENERATE,
    prompt: str | None = None,
    seed: int = 0,
    **options: Any,
) -> CitedAnswer:
    """Finds the passages that support the answer of a causal language model, sentence by sentence, and proves it.

    `model` is a folder, a hub name, a URL, a model in memory (with `tokenizer=…`) or the result of `load_model`;
    `options` are those of load_model. Without an answer, the model writes one of up to `generate` tokens. `prompt`
    contains {passages} and {question}. `masking` says how passages are erased (docs/guide/cite.md). Passages that score
    below `tolerance` times the highest score are not divided into sentences; 0 divides all. `choices` is how many
    random choices of other passages the proof erases.
    """
    texts = list(passages.values() if isinstance(passages, Mapping) else passages)
    names = tuple(map(str, passages)) if isinstance(passages, Mapping) else ("",) * len(texts)
    _require(question, texts, tolerance, choices)
    by: Masking = catalog.build("maskings", masking)
    if by.stochastic:
        raise TrothError(
            f"cite needs a masking that erases the same way every time; {catalog.name_of(by)} draws at random"
        )
    example = example_of(question, texts)
    is_written = answer is None
    if answer is None:
        model, options = reader_of(model, prompt, options, generate=generate), {}
        answer = "".join(text for _, text in _encoded(model, example, "passage").written)
    reader = reader_of(model, prompt, options, continuation=answer)
    context = _Context(reader, example, tuple(texts))
    encoding = context.encoding
    said = "".join(text for _, text in encoding.written)
    spans = [(0, len(said)), *sentence_spans(said)]
    prober = Prober(reader, by)
    columns = _columns(encoding, spans[1:])
    found = prober.ask(measured(encoding, context.sentences, columns, tolerance=tolerance, choices=choices, seed=seed))
    parts = [
        CitedPart(
            said[start:end].strip(),
            (start, end),
            log_probability=float(found.whole[number]),
            without_any=float(found.empty[number]),
            scores=found.scores[:, number].astype(np.float32),
            sentence_scores=found.sentence_scores[:, number].astype(np.float32),
            cited=found.cited[number],
            repeated=number in found.repeated,
            proof=found.proofs[number],
        )
        for number, (start, end) in enumerate(spans)
    ]
    return CitedAnswer(
        question=question,
        answer=said,
        written=is_written,
        passages=tuple(texts),
        names=names,
        whole=parts[0],
        parts=tuple(parts[1:]),
        sentences=tuple(found.sentences),
        divided=found.divided,
        undivided=found.undivided,
        tolerance=tolerance,
        masking=catalog.spec(by),
        seed=seed,
        model=reader.fingerprint,
        passes=prober.cost.forward,
    )


def example_of(question: str, passages: Iterable[str]) -> Example:
    """The passages as the text of an example, and the question as its second text."""
    return Example("answer", _BETWEEN.join(passages), question)


def _require(question: str, passages: Sequence[Any], tolerance: float, choices: int) -> None:
    if not question.strip():
        raise TrothError("the question is empty; pass what the model was asked")
    if not passages:
        raise TrothError("there are no passages; give at least one text that the answer may rest on")
    for number, passage in enumerate(passages, start=1):
        arguments.of_kind(f"passage {number}", passage, str, "a text")
        if not passage.strip():
            raise TrothError(f"passage {number} is empty; leave it out")
    if not tolerance >= 0:
        raise TrothError(f"tolerance must be 0 or more (0.1: a tenth of the highest score), not {tolerance}")
    if choices < 1:
        raise TrothError(f"choices must be 1 or more, not {choices}")


def reader_of(model: Any, prompt: str | None, options: Mapping[str, Any], **answer: Any) -> Reader:
    """The model with passages and question in its prompt, followed by the answer, if one is given."""
    if prompt is not None and any(prompt.count(field) != 1 for field in _FIELDS):
        raise TrothError(f"the prompt must contain {{passages}} and {{question}}, each once, not {prompt!r}")
    template = PROMPT if prompt is None else prompt
    for field, own in _FIELDS.items():
        template = template.replace(field, own)
    if isinstance(model, TextClassifier) and options:
        raise TrothError(f"{next(iter(options))} is an option of load_model, but the model is loaded; pass its source")
    if not isinstance(model, TextClassifier):
        model = load_model(model, prompt=template, **options, **answer)
    if not isinstance(model, PromptReader | RemoteContinuation):
        raise TrothError(f"{_READS}; {model.name} is {model.kind}")
    if isinstance(model, RemoteContinuation) and not model.protocol.reads_prompt:
        raise TrothError(f"{_READS}; with compare, only texts are read: leave compare out")
    if prompt is None and not model.chat:
        template += "\nAnswer:"
    if isinstance(model, Reader) and model.prompt == template and "continuation" not in answer:
        return model
    if isinstance(model, RemoteContinuation):
        return model.asking_for(template, **answer)
    kept = {name: getattr(model, name) for name in ("name", "max_length", "chat", "mask_text", "system")}
    return Continuation(model.model, model.tokenizer, prompt=template, **kept, **answer)


def _encoded(model: Reader, example: Example, units: Any) -> Encoding:
    if isinstance(model, Continuation):  # an endpoint's server checks the length itself
        tokens = len(model.ids_of(model.template.fill(example).text)) + model.answer_length
        if tokens > model.max_length:
            raise TrothError(
                f"passages, question and answer take {tokens} tokens, but {model.name} reads {model.max_length}; pass "
                "fewer or shorter passages"
            )
    return model.encode([example], units)[0]


class _Context:
    """The passages of a prompt, and their encoding with passages or sentences as units."""

    def __init__(self, model: Reader, example: Example, texts: tuple[str, ...]) -> None:
        self.model, self.example, self.texts = model, example, texts
        self.starts: list[int] = np.cumsum([0, *(len(text) + len(_BETWEEN) for text in texts)]).tolist()
        # The separator between two passages is erased with the first of them.
        self.units = [(start, min(end, len(example.text))) for start, end in pairwise(self.starts)]
        self.encoding = _encoded(model, example, tuple(self.units))

    def sentences(self, places: Sequence[int]) -> tuple[list[tuple[int, Span]], Encoding | None]:
        """The sentences of these passages, and the encoding with them as units; None without passages."""
        found: list[tuple[int, Span]] = []
        units: list[Span] = []
        for place in places:
            start, spans = self.starts[place], sentence_spans(self.texts[place])
            found += [(place, span) for span in spans]
            # White space belongs to the sentence before it; a passage of one sentence is a single unit.
            edges = [*(start + first for first, _ in spans), start + len(self.texts[place])]
            units += pairwise(edges) if len(spans) > 1 else [self.units[place]]
        return found, _encoded(self.model, self.example, tuple(units)) if units else None


def _columns(encoding: Encoding, sentences: Sequence[Span]) -> Values:
    """[1 + tokens, 1 + sentences] A 0/1 matrix of the model outputs that each part of the answer sums."""
    ends = np.cumsum([len(text) for _, text in encoding.written]).tolist()
    of_token = join(list(pairwise([0, *ends])), sentences)
    columns = np.zeros((1 + len(of_token), 1 + len(sentences)))
    columns[0, 0] = 1
    columns[1 + np.arange(len(of_token)), 1 + of_token] = 1
    return columns
