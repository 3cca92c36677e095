"""Captum's KernelShap with a single group of features, which nothing may change, draws from NaN."""

import torch
from _tiny import say
from captum.attr import KernelShap

given = torch.tensor([[2, 3]])
try:
    KernelShap(lambda rows: rows.float().sum(1)).attribute(
        given, given, feature_mask=torch.zeros_like(given), n_samples=10
    )
except ValueError as error:
    say("nan" in str(error), f"ValueError: {' '.join(str(error).split())[:110]}")
say(False, "no error")
