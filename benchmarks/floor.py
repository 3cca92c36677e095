"""The floor: what the floating-point operations that cannot be avoided would take at the speed of a matrix product.

Counted are the products of weights and of attention. In the last layer only the first position is needed beyond its
keys and values. A backward pass to the word vectors costs the products with weights once more, attention twice.
"""

from __future__ import annotations

from inputs import Size


def forward(size: Size, tokens: int) -> float:
    """Operations of one row through an encoder with a classifier on its first position."""
    weights, attention = _layer(size, tokens)
    last = 2 * 2 * size.width**2 * tokens + 2 * 10 * size.width**2 + 4 * tokens * size.width
    return (size.layers - 1) * (weights + attention) + last


def gradient(size: Size, tokens: int) -> float:
    """Operations of one row, there and back to the word vectors."""
    attention = (size.layers - 1) * _layer(size, tokens)[1]
    return 2 * forward(size, tokens) + attention


def causal(size: Size, prompt: int, tokens: int, rows: int) -> float:
    """Operations of `rows` versions of a text after a prompt that is read once."""
    weights, _ = _layer(size, 1)
    seen = sum(range(prompt)) + rows * sum(range(prompt, prompt + tokens))
    return size.layers * (weights * (prompt + rows * tokens) + 4 * size.width * seen)


def _layer(size: Size, tokens: int) -> tuple[float, float]:
    """One layer's products with weights (queries, keys, values, output, 4 × wide and back), and those of attention."""
    return 2 * 12 * size.width**2 * tokens, 4 * tokens**2 * size.width


def peak(seconds: float = 0.15) -> float:
    """Operations per second of the fastest of a few matrix products, in single precision on one thread.

    By whatever torch has on board: MKL and, where it can be called by name, oneDNN.
    """
    import time

    import torch

    from troth.models.fused.products import has_onednn, multiplied

    ways = [torch.nn.functional.linear]
    if has_onednn():
        ways.append(lambda left, right: multiplied(left, right, None))
    best = 0.0
    for rows, inner, columns in ((512, 384, 1536), (1024, 768, 768), (1024, 1024, 1024)):
        left, right = torch.randn(rows, inner), torch.randn(columns, inner)
        for way in ways:
            end = time.perf_counter() + seconds / len(ways)
            while time.perf_counter() < end:
                start = time.process_time()
                way(left, right)
                best = max(best, 2 * rows * inner * columns / max(time.process_time() - start, 1e-6))
    return best
