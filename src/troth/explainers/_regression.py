"""Weighted least squares for surrogate models: small problems, in double precision, with standard errors."""

import torch
from torch import Tensor


def regress(design: Tensor, values: Tensor, weights: Tensor, penalty: float = 0.0) -> tuple[Tensor, Tensor]:
    """Coefficients that minimize Σ w (y − xβ)² + penalty · ‖β‖² (the solution of minimum norm if there are several),
    and their standard errors.

    The errors are those of sampling the rows again (the sandwich estimator). [rows, k], [rows], [rows] -> [k], [k]
    """
    coefficients, inverse = solve(design, values, weights, penalty)
    influence = ((design * weights[:, None]) * (values - design @ coefficients)[:, None]) @ inverse
    return coefficients, influence.square().sum(0).sqrt()


def solve(design: Tensor, values: Tensor, weights: Tensor, penalty: float = 0.0) -> tuple[Tensor, Tensor]:
    """The coefficients, and the inverse of the weighted moment matrix. -> [k], [k, k]"""
    weighted = design * weights[:, None]
    moments = weighted.T @ design + penalty * torch.eye(design.shape[1], dtype=design.dtype)
    inverse = torch.linalg.pinv(moments, rtol=1e-11, hermitian=True)
    return inverse @ (weighted.T @ values), inverse


def sparse(design: Tensor, values: Tensor, alpha: float) -> Tensor:
    """Coefficients of the Lasso with an intercept on standardized columns, on the original scale of the columns.

    They minimize Σ (y − xβ)² / 2 rows + alpha · ‖β‖₁. [rows, k], [rows] -> [k]
    """
    from sklearn.linear_model import Lasso

    scale = design.std(0, correction=0)
    scale = torch.where(scale > 0, scale, 1.0)  # a constant column gets 0
    model = Lasso(alpha=alpha).fit(((design - design.mean(0)) / scale).numpy(), values.numpy())
    return torch.from_numpy(model.coef_) / scale
