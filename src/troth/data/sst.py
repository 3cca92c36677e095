"""SST: is a sentence of a film review positive (Socher et al. 2013)? The binary, sentence-level form."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Sst(Published):
    hub = "SetFit/sst2"
    labels = ("negative", "positive")
    splits = rows(train=6_920, validation=872, test=1_821)
    metric = "macro_f1"
