"""MRPC: do two sentences say the same (Dolan & Brockett 2005, as in GLUE)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Mrpc(Published):
    hub = "nyu-mll/glue:mrpc"
    text_column = "sentence1"
    auxiliary = "sentence2"
    labels = ("not_equivalent", "equivalent")
    splits = rows(train=3_668, validation=408, test=1_725)
    metric = "macro_f1"
