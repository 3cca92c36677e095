"""The models whose reasoning is checked: a local causal language model, an endpoint that completes plain text, or any
object with the two methods of `Reasoner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core.errors import TrothError
from troth.core.memory import moved
from troth.core.types import Example, Question
from troth.data._choice_questions import LETTERS
from troth.engine.prober import Prober
from troth.engine.probes import whole_inputs
from troth.engine.routines import Routine
from troth.models import load_model, short_name
from troth.models._causal import Causal
from troth.models._endpoint import is_url

Floats = NDArray[np.float64]
STOP = "\n"  # a reasoning is one line of text
_AT_ONCE = 16

# Examples that show the model the form of question, reasoning and answer; they do not help to decide any question.
SHOTS = """Question: Which number is the largest: 21, 64 or 38?
Choices: A) 21 B) 64 C) 38
Reasoning: 21 is less than 38. 38 is less than 64. So the largest number is 64.
Answer: B

Question: What is 12 plus 15?
Choices: A) 27 B) 37 C) 28
Reasoning: 10 plus 10 is 20. 2 plus 5 is 7. So 20 plus 7 is 27.
Answer: A

Question: Tom has 9 cards. Tom buys 4 more and gives 2 away. How many cards are left?
Choices: A) 13 B) 15 C) 11
Reasoning: 9 plus 4 is 13. 13 minus 2 is 11. So 11 cards are left.
Answer: C

"""


@runtime_checkable
class Reasoner(Protocol):
    """The interface of a model that reasons. A prompt is the text that follows the examples of the form (`SHOTS`)."""

    name: str

    def write(self, prompts: Sequence[str], most: int) -> list[str]:
        """The most probable continuation of each prompt, up to the end of the line or the given number of tokens."""

    def choose(self, prompts: Sequence[str], choices: Sequence[int]) -> list[Floats]:
        """The probabilities of the first letters of the alphabet as the next word."""


def reasoner_of(model: Any, most_choices: int, **options: Any) -> Reasoner:
    """Returns the reasoner for a folder, a hub name, a URL#NAME, a loaded language model, or a reasoner itself."""
    if isinstance(model, Reasoner):
        return model
    if is_url(model):
        return EndpointReasoner(model, most_choices, **options)
    return LocalReasoner(model, most_choices, **options)


def _shares(logits: Any, choices: Sequence[int]) -> list[Floats]:
    rows = torch.as_tensor(logits, dtype=torch.float64)
    return [row[:count].softmax(0).numpy() for row, count in zip(rows, choices, strict=True)]


def _ask(model: Any, prompts: Sequence[str]) -> Any:
    """The logits of the letters after each prompt. [prompts, letters]"""
    encodings = model.encode([Example(str(place), prompt) for place, prompt in enumerate(prompts)])
    for encoding, prompt in zip(encodings, prompts, strict=True):
        if encoding.truncated:
            raise TrothError(f"{model.name} reads too few tokens for the question {prompt[:60]!r}…; raise max_length")

    def asking() -> Routine[Any]:
        answers = yield whole_inputs([Question(encoding, 0) for encoding in encodings])
        return answers.logits

    return Prober(model).ask(asking())


class LocalReasoner:
    """A causal language model of transformers."""

    def __init__(self, source: Any, most_choices: int, **options: Any) -> None:
        if isinstance(source, Causal):
            source, options = source.model, {"tokenizer": source.tokenizer, **options}
        asked: dict[str, Any] = {
            "prompt": SHOTS + "{text}",
            "class_words": list(LETTERS[:most_choices]),
            "chat": False,
            **options,
        }
        self.model = load_model(source, **asked)
        if not isinstance(self.model, Causal):
            raise TrothError(f"{self.model.name} writes no text; name a causal language model")
        self.name = short_name(self.model.name)

    def choose(self, prompts: Sequence[str], choices: Sequence[int]) -> list[Floats]:
        return _shares(_ask(self.model, prompts), choices)

    def write(self, prompts: Sequence[str], most: int) -> list[str]:
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
        written = [""] * len(prompts)
        for start in range(0, len(order), _AT_ONCE):
            batch = order[start : start + _AT_ONCE]
            for place, text in zip(batch, self._write([SHOTS + prompts[place] for place in batch], most), strict=True):
                written[place] = text.partition(STOP)[0].strip()
        return written

    def _write(self, prompts: Sequence[str], most: int) -> list[str]:
        """Generates with left padding, so that all prompts end at the same position."""
        assert isinstance(self.model, Causal)
        network, tokenizer = self.model.model, self.model.tokenizer
        ids = [torch.tensor(self.model.ids_of(prompt)) for prompt in prompts]
        width = max(map(len, ids))
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
        rows = torch.stack([torch.nn.functional.pad(each, (width - len(each), 0), value=filler) for each in ids])
        real = torch.stack([torch.arange(width) >= width - len(each) for each in ids]).long()
        with torch.no_grad(), self.model.at_rest():
            device = self.model.device
            found = network.generate(
                input_ids=moved(rows, device), attention_mask=moved(real, device), do_sample=False, temperature=None,
                top_p=None, top_k=None, max_new_tokens=most, pad_token_id=filler, stop_strings=[STOP],
                tokenizer=tokenizer,
            )  # fmt: skip
        return [str(tokenizer.decode(row[width:], skip_special_tokens=True)) for row in found]


class EndpointReasoner:
    """A server that speaks OpenAI's completions protocol: it continues plain text and lists the likeliest tokens."""

    def __init__(self, url: str, most_choices: int, *, parallel: int = 8, **options: Any) -> None:
        asked: dict[str, Any] = {"api": "completions", "unlisted": "floor", "parallel": parallel, **options}
        words = list(LETTERS[:most_choices])
        model: Any = load_model(url, prompt=SHOTS + "{text}", class_words=words, **asked)
        self.model, self.name = model, model.name

    def choose(self, prompts: Sequence[str], choices: Sequence[int]) -> list[Floats]:
        return _shares(_ask(self.model, prompts), choices)

    def write(self, prompts: Sequence[str], most: int) -> list[str]:
        asked = [self.model.protocol.writing([("", SHOTS + prompt)], most, 0, None) for prompt in prompts]
        stopping = [each._replace(body={**each.body, "stop": [STOP]}) for each in asked]
        return [str(text).partition(STOP)[0].strip() for text in self.model.asking.answers(stopping)]
