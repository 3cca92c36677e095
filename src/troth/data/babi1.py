"""bAbI task 1 as published (Weston et al. 2016): where is a person, by one fact of a short story."""

from dataclasses import dataclass

from troth.data.babi import OfficialBabi


@dataclass(frozen=True)
class Babi1(OfficialBabi):
    task = 1
