"""CoLA: is a sentence acceptable English (Warstadt et al. 2019, as in GLUE)? Its test labels are hidden."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Cola(Published):
    hub = "nyu-mll/glue:cola"
    text_column = "sentence"
    labels = ("unacceptable", "acceptable")
    splits = rows(train=8_551, validation=1_043)
    metric = "matthews"
