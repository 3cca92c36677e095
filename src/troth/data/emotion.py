"""Emotion: which of six feelings does a tweet show (Saravia et al. 2018)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Emotion(Published):
    hub = "dair-ai/emotion:split"
    labels = ("sadness", "joy", "love", "anger", "fear", "surprise")
    splits = rows(train=16_000, validation=2_000, test=2_000)
    license = "educational and research use"
