"""Rounds a matrix to 4 bits so that the error of its outputs is small, not that of its weights (GPTQ).

With the second moments H of a layer's inputs, H = E[x x^T], the mean squared error of an output is `e H e^T`, of the
errors e of its weights. By a triangular factor, H = U U^T, it is the squared length of `e U`: groups of 32 inputs are
rounded one after another, each to the values that leave the least error together with the groups before it
(Frantar et al. 2022, "GPTQ"; Chee et al. 2023, "QuIP", section 3, for this form). Scale and zero point of a group are
those of several with the least such error. Then sweeps round each group again, given all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engine.native.packing import GROUP

LARGEST = 15
"""Largest code of 4 bits, and largest zero point."""

_RANGES = (1.05, 1.0, 0.95, 0.9, 0.85, 0.8)
"""Parts of the range of a group's weights that are tried; weights beyond are clipped."""
_SWEEPS = 2
"""How often every group is rounded again."""
_DAMPING = 0.01
"""Part of the mean of the moments' diagonal that is added to it, so that they can be factored."""
_WEIGHTS_AT_ONCE = 1 << 22
"""Weights of a matrix that are rounded at once: bounds the temporary memory."""


@dataclass(frozen=True)
class RoundedMatrix:
    """A matrix of 4-bit codes, whose weights are `(codes - zeros) * scales`.

    Attributes:
        codes: [out, in], whole numbers from 0 to 15.
        scales, zeros: [out, in / 32], of each 32 inputs; zeros are whole numbers from 0 to 15.
    """

    codes: Tensor
    scales: Tensor
    zeros: Tensor


class InputMoments:
    """The second moments of a layer's inputs, factored for rounding the layer's matrices.

    Attributes:
        order: the groups of 32 inputs, those with the largest inputs first, [groups].
        matrix: the moments in that order, [in, in], with a hundredth of their mean added to the diagonal.
        factor: the upper triangular U of [in, in] with `U U^T = matrix`.
        blocks: the same of the diagonal blocks of `matrix`, [groups, 32, 32].
    """

    def __init__(self, moments: Tensor) -> None:
        """Factor the moments E[x x^T], [in, in] float32, of a multiple of 32 inputs."""
        inputs = len(moments)
        diagonal = moments.diagonal()
        self.order = diagonal.view(-1, GROUP).mean(1).argsort(descending=True, stable=True)
        columns = (self.order[:, None] * GROUP + torch.arange(GROUP)).flatten()
        self.matrix = moments[columns[:, None], columns]
        self.matrix.diagonal().add_(_DAMPING * diagonal.mean().clamp(min=1e-12))
        self.factor = _upper_factor(self.matrix)
        tiles = self.matrix.view(inputs // GROUP, GROUP, inputs // GROUP, GROUP)
        self.blocks = _upper_factor(tiles.diagonal(dim1=0, dim2=2).permute(2, 0, 1))

    @staticmethod
    def uncorrelated(inputs: int) -> InputMoments:
        """Return the moments of inputs of equal size, none of which is correlated with another."""
        return InputMoments(torch.eye(inputs))


def round_matrix(weight: Tensor, moments: InputMoments, dtype: torch.dtype) -> RoundedMatrix:
    """Round an [out, in] matrix to 4 bits for inputs with these moments; scales are representable as `dtype`."""
    step = max(_WEIGHTS_AT_ONCE // weight.shape[1], 1)
    parts = [_Rows(rows, moments, dtype).rounded() for rows in torch.split(weight, step)]
    return RoundedMatrix(*(torch.cat(column) for column in zip(*parts, strict=True)))


class _Rows:
    """Outputs of a matrix while they are rounded: inputs in the order of their moments, as rows of the tensors."""

    def __init__(self, weight: Tensor, moments: InputMoments, dtype: torch.dtype) -> None:
        outputs = len(weight)
        self._moments, self._dtype = moments, dtype
        self._weight = weight.float().view(outputs, -1, GROUP)[:, moments.order].permute(1, 2, 0).contiguous()
        self._errors = torch.zeros_like(self._weight)
        self._codes = torch.zeros_like(self._weight)
        self._scales, self._zeros = (self._weight.new_zeros(self._weight.shape[0], outputs) for _ in range(2))

    def rounded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes, [out, in], scales and zeros, [out, groups], with inputs in the matrix's order."""
        for group in range(len(self._weight)):
            self._round_after_earlier(group)
        for _ in range(_SWEEPS):
            for group in range(len(self._weight)):
                self._round_given_others(group)
        back = self._moments.order.argsort()
        codes = self._codes[back].permute(2, 0, 1).flatten(1)
        return codes, self._scales[back].T.contiguous(), self._zeros[back].T.contiguous()

    def _round_after_earlier(self, group: int) -> None:
        factor = self._moments.factor[:, group * GROUP : (group + 1) * GROUP]
        block = factor[group * GROUP : (group + 1) * GROUP]
        left = factor[: group * GROUP].T @ self._errors[:group].flatten(0, 1)
        target = self._weight[group] + torch.linalg.solve_triangular(block.T, left, upper=False)
        best = _best_rounding(target, block, *_candidates(self._weight[group], self._dtype))
        self._put(group, best, torch.ones_like(best.loss, dtype=torch.bool))

    def _round_given_others(self, group: int) -> None:
        block = self._moments.blocks[group]
        row = self._moments.matrix[group * GROUP : (group + 1) * GROUP]
        own = row[:, group * GROUP : (group + 1) * GROUP]
        slope = row @ self._errors.flatten(0, 1) - own @ self._errors[group]
        solved = torch.linalg.solve_triangular(block, slope, upper=True)
        target = self._weight[group] + torch.linalg.solve_triangular(block.T, solved, upper=False)
        now = block.T @ (target - self._weight[group] + self._errors[group])
        ranges, fitted = _candidates(self._weight[group], self._dtype), self._refitted(group, target)
        best = _best_rounding(target, block, *(torch.cat(pair) for pair in zip(ranges, fitted, strict=True)))
        self._put(group, best, best.loss < now.square().sum(0))

    def _refitted(self, group: int, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return scales and zero points near the present ones, [3, N]: the best scale for the codes, other zeros."""
        block, scale, zero = self._moments.blocks[group], self._scales[group], self._zeros[group]
        steps = block.T @ (self._codes[group] - zero)
        fit = (steps * (block.T @ target)).sum(0) / steps.square().sum(0).clamp(min=1e-30)
        fit = fit.to(self._dtype).float()
        scales = torch.stack((torch.where(fit > 0, fit, scale), scale, scale))
        return scales, torch.stack((zero, (zero - 1).clamp(min=0), (zero + 1).clamp(max=LARGEST)))

    def _put(self, group: int, best: _Group, where: Tensor) -> None:
        values = (best.codes - best.zeros) * best.scales
        self._errors[group] = torch.where(where, self._weight[group] - values, self._errors[group])
        self._codes[group] = torch.where(where, best.codes, self._codes[group])
        self._scales[group] = torch.where(where, best.scales, self._scales[group])
        self._zeros[group] = torch.where(where, best.zeros, self._zeros[group])


@dataclass(frozen=True)
class _Group:
    """The rounding of a group of 32 inputs of N outputs: codes [32, N], scales, zeros and losses [N]."""

    codes: Tensor
    scales: Tensor
    zeros: Tensor
    loss: Tensor


def _candidates(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the scales and zero points that are tried for a group's weights, [32, N]: two of [candidates, N]."""
    low, high = weight.amin(0).clamp(max=0), weight.amax(0).clamp(min=0)
    parts = weight.new_tensor(_RANGES)[:, None]
    scales = ((high - low) * parts / LARGEST).to(dtype).float()
    scales = torch.where(scales == 0, 1, scales)
    return scales, (-low * parts / scales).round().clamp(0, LARGEST)


def _best_rounding(target: Tensor, factor: Tensor, scales: Tensor, zeros: Tensor) -> _Group:
    """Round a group to values near `target`, [32, N], with the scale and zero point of least loss.

    The loss is the squared length of `factor^T (target - values)`; `factor` is upper triangular. Inputs are rounded
    one after another, each to the value nearest to what the errors of those before it make best.
    """
    diagonal = factor.diagonal()
    feedback = factor / diagonal
    wanted = target.expand(len(scales), *target.shape).clone()
    codes = torch.empty_like(wanted)
    loss = torch.zeros_like(scales)
    for i in range(GROUP):
        codes[:, i] = (wanted[:, i] / scales + zeros).round_().clamp_(0, LARGEST)
        values = (codes[:, i] - zeros) * scales
        loss += (wanted[:, i] - values).mul_(diagonal[i]).square_()
        wanted[:, i + 1 :] += feedback[i, i + 1 :, None] * (target[i] - values)[:, None]
    best = loss.argmin(0)
    chosen = best.expand(1, -1)
    return _Group(
        codes.gather(0, best.expand(1, GROUP, -1))[0],
        scales.gather(0, chosen)[0],
        zeros.gather(0, chosen)[0],
        loss.gather(0, chosen)[0],
    )


def _upper_factor(matrix: Tensor) -> Tensor:
    """Return the upper triangular U with `U U^T = matrix`, of [..., n, n] positive definite matrices."""
    factor: Tensor = torch.linalg.cholesky(matrix.flip((-2, -1)))
    return factor.flip((-2, -1))
