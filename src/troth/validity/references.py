"""Which texts MaSF compares with, and in which form: those of the training (Madsen et al., 2024, section 3.3 and F.2).

References should be drawn as the training examples were and be transformed as they were: the part that was held out of
the training, and for masked fine-tuning every second one masked by the training's own masking. That form decides much:
against references that are all masked, masked inputs pass on nearly any model, and whole ones seem unusual.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from troth.core import catalog
from troth.core.errors import NoSplitError, TrothError
from troth.core.types import Example
from troth.data import Data, load_data
from troth.maskings import Masking
from troth.models import TextClassifier
from troth.training.record import record_of
from troth.validity.masf import FEWEST

References = Literal["as_trained", "masked", "all_masked", "whole"]
MOST = 1000  # of the held-out part: a p-value can then be as small as 0.001
_SHARES = {"masked": 0.5, "all_masked": 1.0, "whole": 0.0}
_FORMS = {
    0.0: "the references are whole texts",
    0.5: "every second reference is masked",
    1.0: "all references are masked",
}


@dataclass(frozen=True)
class Form:
    """What becomes of the references: which share of them is masked, and how."""

    share: float
    masking: Masking
    note: str

    def __str__(self) -> str:
        how = f" by {catalog.spec(self.masking)}" if self.share else ""
        return f"{_FORMS.get(self.share, f'{self.share:.0%} of the references are masked')}{how}"


def form_of(model: TextClassifier, references: References, tested: Masking) -> Form:
    """As the model's own training record says, or as asked; what is unknown of the masking is that of the inputs."""
    record = record_of(model)
    learned = record.masking if record is not None else ""
    masking: Masking = catalog.build("maskings", learned) if learned else tested
    if references != "as_trained":
        form = Form(_SHARES[references], masking, "")
        return replace(form, note=f"as asked, {form}")
    if record is None:
        whole = Form(0.0, masking, "")
        unknown = (
            f"nothing says that {model.name} was fine-tuned with masking, so {whole}; if it was: references masked"
        )
        return replace(whole, note=unknown)
    form = Form(record.masked_share, masking, "")
    how = "with masking" if learned else "on whole texts"
    return replace(form, note=f"{model.name} was fine-tuned {how}, so {form}")


def held_out(model: TextClassifier) -> tuple[Data | None, str]:
    """The part that was held out of a model's training, where its folder names one that is at hand; else why not."""
    record = record_of(model)
    if record is None:
        return None, ""
    try:
        return record.held_out(), ""
    except (TrothError, OSError, TypeError, ValueError) as error:  # a folder may say anything
        return None, f"the part held out of the training of {model.name} cannot serve as references: {error}"


def held_out_beside(model: TextClassifier, tested: Data) -> tuple[Data | None, str]:
    """References from the training's held-out part, without the texts to be tested, at most 1,000; else why not."""
    own, why = held_out(model)
    if own is None:
        return None, why
    texts = {(example.text, example.text_pair) for example in tested}
    others = [example for example in own if (example.text, example.text_pair) not in texts]
    if len(others) < FEWEST:
        left = f"only {len(others)} of them are not tested themselves"
        return None, f"the part held out of the training of {model.name} cannot serve as references: {left}"
    # A file may be sorted by class or length: drawn, not the first ones.
    places = np.sort(np.random.default_rng(0).permutation(len(others))[:MOST])
    chosen = [others[int(place)] for place in places]
    note = (
        f"the references are {len(chosen):,} examples that were held out of the training of {model.name} ({own.name})"
    )
    return replace(own, examples=chosen), note


def parted(
    data: str | Path | Data | Iterable[Example],
    validation: str | Path | Data | Iterable[Example] | None,
    model: TextClassifier | None = None,
) -> tuple[Data, Data, list[str]]:
    """References, test examples, and what must be said of them.

    Where no references are given, the training's held-out part serves, else half of the data.
    """
    tested = data if isinstance(data, Data) else load_data(data)
    if validation is None:
        references, note = held_out_beside(model, tested) if model is not None else (None, "")
        if references is not None:
            return references, tested, [note]
        references, tested, halved = _halves(tested)
        return references, tested, [*filter(None, [note]), halved]
    references = validation if isinstance(validation, Data) else load_data(validation)
    texts = {(example.text, example.text_pair) for example in references}
    shared = sum((example.text, example.text_pair) in texts for example in tested)
    if not shared:
        return references, tested, []
    note = f"{shared:,} of {len(tested):,} examples to test are also references, which makes them look in distribution"
    warnings.warn(note, stacklevel=4)
    return references, tested, [note]


def _halves(data: Data) -> tuple[Data, Data, str]:
    if len(data) < 2 * FEWEST:
        raise TrothError(
            f"{len(data)} examples of {data.name} are too few: half of them would be the references, and MaSF needs "
            f"{FEWEST}; use at least {2 * FEWEST} examples (troth check --limit {FEWEST} reads as many), or name other "
            "data for the references (--validation-data)"
        )
    order = np.random.default_rng(0).permutation(len(data))
    first, second = np.sort(order[: len(data) // 2]), np.sort(order[len(data) // 2 :])
    references = replace(data, examples=[data[int(place)] for place in first])
    tested = replace(data, examples=[data[int(place)] for place in second])
    note = f"{len(references):,} examples drawn from the data are references, {len(tested):,} are tested"
    return references, tested, note


def splits_of(
    data: str,
    split: str | None,
    validation: str | None,
    validation_split: str | None,
    limit: int | None,
    model: TextClassifier | None = None,
    columns: Mapping[str, Any] | None = None,
) -> tuple[Data, Data | None]:
    """What to test and the references: as said, else those `parted` will find in the model's training (None here),
    else the test and validation splits, else None for halves."""
    own = model is not None and held_out(model)[0] is not None

    def read(split: str | None = None, limit: int | None = None) -> Data:
        return load_data(data, split, limit, **(columns or {}))

    if validation is None and validation_split is None and split is None:
        try:
            return read("test", limit), None if own else read("validation")
        except NoSplitError:
            return read(limit=limit if own or limit is None else 2 * limit), None
    tested = read(split, limit)
    if validation is None and validation_split is None:
        return tested, None
    return tested, load_data(validation or data, validation_split, **(columns or {}))
