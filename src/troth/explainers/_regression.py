"""Weighted least squares, as surrogate models need it: small, in double precision, with standard errors."""

import torch
from torch import Tensor


def regress(design: Tensor, values: Tensor, weights: Tensor, penalty: float = 0.0) -> tuple[Tensor, Tensor]:
    """Coefficients that minimize Σ w (y − xβ)² + penalty · ‖β‖², the shortest where many do, and their standard errors.

    The errors are those of drawing the rows again (the sandwich estimate). [rows, k], [rows], [rows] -> [k], [k]
    """
    weighted = design * weights[:, None]
    moments = weighted.T @ design + penalty * torch.eye(design.shape[1], dtype=design.dtype)
    inverse = torch.linalg.pinv(moments, rtol=1e-11, hermitian=True)
    coefficients = inverse @ (weighted.T @ values)
    influence = (weighted * (values - design @ coefficients)[:, None]) @ inverse
    return coefficients, influence.square().sum(0).sqrt()
