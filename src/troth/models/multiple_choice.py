"""A multiple choice model (SWAG, RACE): the text is read once with each choice after it; the most probable choice is
the prediction.

The classes are the choices, which share a softmax. Explained is which words of the text speak for one choice (rather
than another). A choice is in no unit and in no erased input: it is appended to the text just before the model reads it.
"""

from collections.abc import Sequence
from typing import Any

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models._loading import MULTIPLE_CHOICE, architecture
from troth.models.base import TextClassifier
from troth.models.encoder import Encoder
from troth.models.zero_shot import ZeroShot


class MultipleChoice(ZeroShot):
    """A transformers model with a multiple choice head, its tokenizer and the choices."""

    kind = "a multiple choice model"
    loaded_with = "a multiple choice model and choices=[…]"
    options = ("choices",)
    network = MULTIPLE_CHOICE
    takes_windows = False

    def __init__(self, model: Any, tokenizer: Any, *, choices: Sequence[str], **options: Any) -> None:
        super().__init__(
            model, tokenizer, candidate_labels=_checked(choices), hypothesis_template="{}", multi_label=False, **options
        )

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return architecture(source).endswith("ForMultipleChoice")

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        _checked(options.get("choices"))  # checked before the model is loaded
        return super(ZeroShot, cls).load(source, **options)

    @property
    def spec(self) -> dict[str, Any]:
        own = {} if self.labels == self.candidate_labels else {"labels": list(self.labels)}
        return {"choices": list(self.candidate_labels), **own}

    @property
    def columns(self) -> int:
        return 1

    def scored_columns(self) -> tuple[int, int]:
        return 0, 0

    def inputs(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> dict[str, Any]:
        """One choice at a time: [rows, 1, length]"""
        inputs = Encoder.inputs(self, rows, attentions=attentions, hidden=hidden)
        return {name: value[:, None] if hasattr(value, "shape") else value for name, value in inputs.items()}


def _checked(choices: Any) -> tuple[str, ...]:
    given = () if choices is None or isinstance(choices, str) else tuple(choices)
    if len(given) < 2 or not all(isinstance(choice, str) and choice.strip() for choice in given):
        raise TrothError(f'choices must be two or more texts, such as ["He eats it.", "He sells it."], not {choices!r}')
    if len(set(given)) < len(given):
        raise TrothError(f"choices contains one twice: {', '.join(given)}")
    return given
