"""Ordinary fine-tuning: whole inputs and cross-entropy, nothing else."""

from dataclasses import dataclass

from troth.training.recipes import Recipe


@dataclass(frozen=True)
class Plain(Recipe):
    pass
