"""Choice of input channels by LASSO, and new weights for those that are kept by least squares."""

import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["lasso_problem", "least_squares", "ranking", "windows"]


def ranking(gram: Tensor, correlation: Tensor, count: int) -> list[int]:
    """All channels, beginning with the ``count`` that the LASSO keeps.

    These are the nonzero ones at the smallest lambda with at most ``count`` of them; if there are
    fewer, the largest ones at the end of the path come next.
    """
    try:
        from sklearn.linear_model import lars_path_gram
    except ImportError:
        raise ValueError(
            "this method needs scikit-learn; install it by pip install 'transformable[methods]'"
        ) from None
    # makes the solution unique where channels are equal or always 0
    ridge = 1e-9 * max(float(gram.diagonal().mean()), 1e-30)
    ridged = gram.double() + ridge * torch.eye(len(gram)).double()
    with warnings.catch_warnings():
        # it warns if the path ends early because nothing is left to explain
        warnings.simplefilter("ignore")
        _, _, path = lars_path_gram(
            correlation.double().numpy(),
            ridged.numpy(),
            n_samples=1,
            max_iter=10 * len(gram),
            method="lasso",
        )
    sizes = np.abs(path)
    point = np.flatnonzero((sizes > 0).sum(0) <= count)[-1]
    return sorted(range(len(gram)), key=lambda i: (-sizes[i, point], -sizes[i, -1], i))


def lasso_problem(
    X: Tensor, Y: Tensor, W: Tensor, channel: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Gram matrix of the contributions of the channels to X W, and their correlations with Y.

    ``channel`` is that of each column of X and row of W, or -1 for one outside of the group, whose
    contribution is subtracted from Y. Contributions, each as large as Y, are never computed.
    """
    own = channel >= 0
    Y = Y - X[:, ~own] @ W[~own]
    X, W, channel = X[:, own], W[own], channel[own]
    gram, correlation = X.new_zeros(count, count), X.new_zeros(count)
    correlation.index_add_(0, channel, ((X.T @ Y) * W).sum(1))
    for part in torch.split(torch.arange(len(W)), 512):
        both = (X[:, part].T @ X) * (W[part] @ W.T)
        sums = X.new_zeros(len(part), count).index_add_(1, channel, both)
        gram.index_add_(0, channel[part], sums)
    return gram, correlation


def least_squares(X: Tensor, Y: Tensor, W: Tensor, ridge: float) -> Tensor:
    """The weights V that minimise |X V - Y|² plus a ridge penalty on V - W, relative to the mean
    square of a column of X."""
    missing = Y - X @ W
    weight = (ridge * X.square().sum() / len(W)).clamp(min=1e-30)
    # of the two forms of the solution, the one with the smaller system
    wide = len(X) < len(W)
    gram = X @ X.T if wide else X.T @ X
    gram.diagonal().add_(weight)
    change: Tensor = torch.linalg.solve(gram, missing if wide else X.T @ missing)
    return W + (X.T @ change if wide else change)


def windows(module: nn.Module, x: Tensor, places: Tensor, width: int) -> Tensor:
    """The inputs that a layer multiplies with its weights, a row for each output place (N, P)."""
    if not isinstance(module, nn.Conv2d):
        return x
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = F.pad(x, module._reversed_padding_repeated_twice, mode)
    image = torch.arange(len(x), device=x.device)[:, None, None, None]
    offsets = [torch.arange(size, device=x.device) for size in module.kernel_size]
    down, right = (
        corner[..., None] * module.stride[i] + module.dilation[i] * offsets[i]
        for i, corner in enumerate((places // width, places % width))
    )
    # images, places, kernel, kernel, channels
    found = x[image, :, down[..., None], right[..., None, :]]
    return found.permute(0, 1, 4, 2, 3).flatten(2).flatten(0, 1)
