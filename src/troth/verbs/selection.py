"""Selects the examples to explain: by ID, or those that the model gets wrong or right."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from troth.core.errors import TrothError, unknown
from troth.core.types import Example, Question
from troth.data import Data
from troth.data._classes import match_labels
from troth.engine.prober import Prober
from troth.engine.probes import PREDICTED, whole_inputs
from troth.engine.routines import Routine
from troth.models import TextClassifier
from troth.models.targets import gold_class

_CHUNK = 256  # examples read at a time, until enough are found


def of_ids(data: Data, ids: Iterable[str]) -> list[Example]:
    """The examples with these IDs, in this order."""
    by_id = {example.id: example for example in data}
    for each in ids:
        if each not in by_id:
            raise unknown(f"example in {data.name}", each, [*islice(by_id, 20)])
    return [by_id[each] for each in ids]


def decided(model: TextClassifier, data: Data, *, wrong: bool, limit: int | None = None) -> list[Example]:
    """The first examples for which the model does not predict the gold class (`wrong`), or for which it does."""
    if model.outputs != "classes":
        raise TrothError(f"{model.name} does not choose one class, so no example is right or wrong; leave --only out")
    unlabelled = next((example for example in data if example.label is None), None)
    if unlabelled is not None:
        raise TrothError(
            f"example {unlabelled.id} has no label, so it is not known whether the model is "
            "right about it; name the column of labels (--label), or leave --only out"
        )
    matched = match_labels(data, model.labels, model.name)
    return list(islice(_decided(model, data, list(matched), wrong), limit))


def _decided(model: TextClassifier, data: Data, matched: Sequence[Example], wrong: bool) -> Iterator[Example]:
    originals = list(data)

    def asking(some: Sequence[Example]) -> Routine[list[int]]:
        encodings = model.encode(some)
        answers = yield whole_inputs([Question(encoding, target=PREDICTED) for encoding in encodings])
        return [int(index) for index in answers.strongest]

    for start in range(0, len(matched), _CHUNK):
        some = matched[start : start + _CHUNK]
        predicted = Prober(model).ask(asking(some))
        for example, original, index in zip(some, originals[start:], predicted, strict=False):
            if (index != gold_class(model.labels, example)) == wrong:
                yield original
