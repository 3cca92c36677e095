"""How often the unit's word pieces occur in the text and how rare they are in the data set: TF-IDF normalized to unit
length, as in scikit-learn (Spärck Jones, 1972; as salience: Chrysostomou & Aletras, 2021). The model is not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from troth import salience
from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Question
from troth.engine.prober import Prober
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.explainers._salient import salient
from troth.salience import pieces


@dataclass(frozen=True)
class TfIdf(Explainer):
    signed = False
    asks_model = False
    learns = True
    formula = "s(w) = count(w) · (ln((1 + N) / (1 + N_w)) + 1), divided by the text's norm"
    pitfalls = "Never runs the model, and depends on the other texts that are explained with it."

    # The result of `prepare`; not an option, so it is neither shown nor compared.
    fitted: salience.TfIdf | None = field(default=None, repr=False, compare=False)

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        texts = [pieces(encoding)[1] for encoding in encodings]
        return replace(self, fitted=salience.TfIdf.fit(texts) if any(texts) else salience.TfIdf({}))

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        yield from ()
        if self.fitted is None:
            raise TrothError(
                "tf_idf is fitted on the data given; call prepare(prober, encodings) first, or use explain"
            )
        return salient(question, self.fitted, self.signed)
