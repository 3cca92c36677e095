"""Rotten Tomatoes: is a sentence of a film review positive (Pang & Lee 2005)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class RottenTomatoes(Published):
    hub = "cornell-movie-review-data/rotten_tomatoes"
    labels = ("negative", "positive")
    splits = rows(train=8_530, validation=1_066, test=1_066)
    sorted_by_label = True
