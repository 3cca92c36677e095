"""SST-2: is a phrase of a film review positive (Socher et al. 2013, as in GLUE)? Its test labels are hidden."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Sst2(Published):
    hub = "nyu-mll/glue:sst2"
    text_column = "sentence"
    labels = ("negative", "positive")
    splits = rows(train=67_349, validation=872)
