"""BoolQ: is the answer to a question yes, given a passage (Clark et al. 2019)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Boolq(Published):
    hub = "google/boolq"
    text_column = "passage"
    auxiliary = "question"
    label = "answer"
    labels = ("no", "yes")
    splits = rows(train=9_427, validation=3_270)
    license = "CC BY-SA 3.0"
