"""bAbI task 2 as published (Weston et al. 2016): where is a thing, by two facts of a story."""

from dataclasses import dataclass

from troth.data.babi import OfficialBabi


@dataclass(frozen=True)
class Babi2(OfficialBabi):
    task = 2
