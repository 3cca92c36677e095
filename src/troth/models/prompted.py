"""A causal language model that is asked for a class word: how likely each word is to follow decides the class.

For words of a single token, the class logits are the last position's logits of these tokens, and only these are
computed. For longer words, they are the log-probabilities of all tokens of a word together.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Example, Rows
from troth.models._causal import Causal, TokenQuestions
from troth.models._endpoint import is_url
from troth.models._prompt_reader import Tree
from troth.models._prompts import as_shots, require_words, template
from troth.models._row_edits import rearranged
from troth.models._trial import rows_of
from troth.models.base import Output as Output
from troth.models.base import TextClassifier


class Prompted(Causal):
    """A causal language model, its tokenizer, a prompt and a word for each class."""

    kind = "a prompted language model"
    loaded_with = 'prompt="… {text} …"'
    options = (
        "prompt", "class_words", "shots", "chat", "mask_text", "explain_shots", "mean_of_tokens", "system",
        "explain_parts", "reasoning",
    )  # fmt: skip

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        prompt: str,
        class_words: Sequence[str] = (),
        shots: Iterable[Any] = (),
        explain_shots: bool = False,
        mean_of_tokens: bool = False,
        system: str | None = None,
        explain_parts: Sequence[str] | None = None,
        reasoning: str | None = None,
        **options: Any,
    ) -> None:
        _require_question(prompt, class_words)
        self.class_words = tuple(class_words)
        super().__init__(model, tokenizer, prompt=prompt, **options)
        self.shots = as_shots(shots, self.class_words, self.labels)
        self.explain_shots, self.mean_of_tokens = explain_shots, mean_of_tokens
        self.system, self.explain_parts, self.reasoning = system, explain_parts, reasoning
        self.template = template(
            prompt, self.shots, tokenizer if self.chat else None, explain_shots,
            system=system, explain_parts=explain_parts, reasoning=reasoning,
        )  # fmt: skip
        self.tree = Tree(class_tokens(self.name, self.ids_of, self.any_text, self.class_words))
        self.answer_length = len(self.tree)

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return "prompt" in options and not is_url(source)

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        _require_question(options["prompt"], options.get("class_words", ()))  # checked before the model is loaded
        return super().load(source, **options)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        labels = self.class_words if labels is None else labels
        if len(labels) != len(self.class_words):
            raise TrothError(f"{len(self.class_words)} class words, but {len(labels)} labels: {', '.join(labels)}")
        return labels

    @property
    def class_ids(self) -> tuple[int, ...]:
        """The first token of each class word, which is the only one if `answer_length` is 0."""
        return tuple(word[0] for word in self.tree.words)

    @property
    def spec(self) -> dict[str, Any]:
        shots = [{"text": shot.text, "text_pair": shot.text_pair, "label": word} for shot, word in self.shots]
        spec: dict[str, Any] = {"prompt": self.prompt, "class_words": list(self.class_words), "chat": self.chat}
        if self.labels != self.class_words:
            spec["labels"] = list(self.labels)
        if shots:
            spec |= {"shots": shots, "explain_shots": self.explain_shots}
        if self.mask_text is not None:
            spec["mask_text"] = self.mask_text
        if self.mean_of_tokens:
            spec["mean_of_tokens"] = True
        if self.system is not None:
            spec["system"] = self.system
        if self.explain_parts is not None:
            spec["explain_parts"] = list(self.explain_parts)
        if self.reasoning is not None:
            spec["reasoning"] = self.reasoning
        return spec

    @property
    def state(self) -> list[Any]:
        words: list[Any] = [self.tree.words, self.mean_of_tokens] if self.answer_length else list(self.class_ids)
        return [self.template.parts, words, self._mask_id, sorted(self.template.frozen)]

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.answer_length:
            return super().notes
        many = ", ".join(
            f"{word} {len(tokens)}" for word, tokens in zip(self.class_words, self.tree.words, strict=True)
        )
        how = "the mean" if self.mean_of_tokens else "the sum"
        return (*super().notes, f"class words have several tokens ({many}): {how} of their log-probabilities counts")

    def follows(self, ids: list[int]) -> tuple[list[int], tuple[tuple[int, str], ...]]:
        return self.tree.ids, ()

    def asked(self, rows: Rows) -> TokenQuestions:
        last = rows.lengths - 1 - self.answer_length
        if not self.answer_length:
            # The ids are not used: the head is applied to the class words only.
            return TokenQuestions(last[:, None], last[:, None])
        questions = torch.tensor(self.tree.questions, device=rows.ids.device)  # [questions, 2]
        places = last[:, None] + 1 + questions[:, 0]
        return TokenQuestions(places, questions[:, 1].expand_as(places))

    def logits_of(self, rows: Rows, asked: TokenQuestions, states: Tensor) -> Tensor:
        if not self.answer_length:
            words = list(self.class_ids)
            return self._head(states[:, 0], words) if self._has_plain_head else states[:, 0][:, words]
        found = self.log_probabilities(states, asked.ids)
        shares = self.tree.shares.to(found)
        return found @ (shares / shares.sum(0) if self.mean_of_tokens else shares)

    def _states(
        self, rows: Rows, asked: TokenQuestions, tree: Tree, attentions: bool = False, hidden: bool = False
    ) -> tuple[Tensor, Any]:
        if not tree.branches or self._reads_trees:
            return super()._states(rows, asked, tree, attentions, hidden)
        return self._word_by_word(rows, asked), None

    def _word_by_word(self, rows: Rows, asked: TokenQuestions) -> Tensor:
        """As `_states`, for a network that cannot read the tree: reads the prompt once per path that new words need."""
        context = rows.lengths - self.answer_length
        states: dict[int, Tensor] = {}
        for word in self.tree.words:
            way = self.tree.way(word)
            new = [place for place, (node, _) in enumerate(self.tree.questions) if node in (-1, *way)]
            if all(place in states for place in new):
                continue
            width = int(context.max()) + len(way)
            behind = torch.arange(width, device=rows.ids.device) - context[:, None]
            nodes = torch.tensor([*way, 0], device=rows.ids.device)[behind.clamp(min=0, max=len(way))]
            index = torch.where(behind < 0, behind + context[:, None], context[:, None] + nodes)
            path = rearranged(rows, index.clamp(max=rows.ids.shape[1] - 1), context + len(way))
            nodes_asked = [self.tree.questions[place][0] for place in new]
            depths = [0 if node < 0 else 1 + way.index(node) for node in nodes_asked]
            places = context[:, None] - 1 + torch.tensor(depths, device=context.device)
            found, _ = super()._states(path, TokenQuestions(places, asked.ids), Tree(()))
            states |= {place: found[:, number] for number, place in enumerate(new)}
        return torch.stack([states[place] for place in range(len(self.tree.questions))], dim=1)

    @cached_property
    def _reads_trees(self) -> bool:
        """Whether the network gets the same results for words side by side as for each alone; tested once."""
        if self._implementation not in ("eager", "sdpa"):
            return False
        (encoding,) = self.encode([Example("", "text", "text" if self.template.has_pair else None)])
        rows = rows_of(self, [encoding])
        asked = self.asked(rows)
        try:
            with torch.no_grad():
                together = self.logits_of(rows, asked, super()._states(rows, asked, self.tree)[0])
                apart = self.logits_of(rows, asked, self._word_by_word(rows, asked))
        except (TrothError, RuntimeError, ValueError, TypeError):
            return False
        return torch.allclose(together, apart, rtol=2e-2, atol=2e-2)


def _require_question(prompt: str, class_words: Sequence[str]) -> None:
    template(prompt)
    require_words(class_words)


def class_tokens(
    name: str, ids_of: Callable[[str], list[int]], prompt: str, words: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """The tokens that each word adds to a filled prompt, after a space unless the prompt ends with white space.

    A form that is a single token is preferred.
    """
    spaces = ("", " ") if prompt[-1:].isspace() else (" ", "")
    before = ids_of(prompt)
    tokens: list[tuple[int, ...]] = []
    for word in words:
        forms = [ids_of(f"{prompt}{space}{word}") for space in spaces]
        added = [
            tuple(form[len(before) :]) for form in forms if form[: len(before)] == before and len(form) > len(before)
        ]
        if not added:
            raise TrothError(
                f"class word {word!r} changes how {name} reads the end of the prompt; end the prompt with another word"
            )
        tokens.append(min(added, key=lambda ids: len(ids) > 1))
        if tokens[-1] in tokens[:-1]:
            other = words[tokens.index(tokens[-1])]
            raise TrothError(f"class words {other!r} and {word!r} are the same tokens; choose other words")
    return tuple(tokens)
