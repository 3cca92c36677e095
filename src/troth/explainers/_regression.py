"""Weighted least squares, as surrogate models need it: small, in double precision, with standard errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def regress(design: Floats, values: Floats, weights: Floats, penalty: float = 0.0) -> tuple[Floats, Floats]:
    """Coefficients that minimise Σ w (y − xβ)² + penalty · ‖β‖², the shortest where many do, and their standard errors.

    The errors are those of drawing the rows again (the sandwich estimate). [rows, k], [rows], [rows] -> [k], [k]
    """
    weighted = design * weights[:, None]
    moments = weighted.T @ design + penalty * np.eye(design.shape[1])
    inverse = np.linalg.pinv(moments, rcond=1e-11, hermitian=True)
    coefficients = inverse @ (weighted.T @ values)
    influence = (weighted * (values - design @ coefficients)[:, None]) @ inverse
    return coefficients, np.sqrt((influence**2).sum(0))
