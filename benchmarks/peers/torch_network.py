"""The two networks in PyTorch, as functions of their weights by path; kernels in PyTorch's own layout."""

import numpy
import torch
from torch.nn.functional import conv2d, cross_entropy, mse_loss, pad, relu


def to_torch(weights):
    """Weights of the problem as tensors: convolutions from height, width, in, out to out, in, height, width."""
    turned = {path: a.transpose(3, 2, 0, 1) if a.ndim == 4 else a for path, a in weights.items()}
    return {path: torch.tensor(numpy.ascontiguousarray(a)) for path, a in turned.items()}


def from_torch(gradient):
    """The reverse of `to_torch`."""
    arrays = {path: g.detach().numpy() for path, g in gradient.items()}
    return {path: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for path, a in arrays.items()}


def tasks_of(problem):
    """Support and query as tensors, images with channels first."""
    if problem.spec["kind"] == "regression":
        parts = (problem.support_x, problem.support_y, problem.query_x, problem.query_y)
        return tuple(torch.tensor(part) for part in parts)
    images = lambda x: torch.tensor(numpy.ascontiguousarray(numpy.moveaxis(x, -1, -3)))
    labels = lambda y: torch.tensor(y, dtype=torch.long)
    return images(problem.support_x), labels(problem.support_y), images(problem.query_x), labels(problem.query_y)


def loss_of(spec):
    """The loss of predictions and labels."""
    return mse_loss if spec["kind"] == "regression" else cross_entropy


def network_of(spec):
    """The network of a problem: `network(weights, x)`."""
    return perceptron if spec["kind"] == "regression" else conv4


def moves(path):
    """Whether the inner loop adapts an array: all but the shift of a normalization."""
    return not path.startswith("norm")


def perceptron(weights, x):
    """Linear layers with ReLU between them."""
    count = len(weights) // 2
    for number in range(count):
        x = x @ weights[f"dense_{number}/kernel"] + weights[f"dense_{number}/bias"]
        x = relu(x) if number < count - 1 else x
    return x


def conv4(weights, x):
    """Blocks of a convolution of stride 2, normalization by the batch's own statistics and ReLU; a linear layer."""
    for number in range(sum(path.startswith("norm") for path in weights)):
        high, wide = (max((-(-size // 2) - 1) * 2 + 3 - size, 0) for size in x.shape[-2:])
        x = pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
        x = conv2d(x, weights[f"conv_{number}/kernel"], weights[f"conv_{number}/bias"], stride=2)
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
        x = relu((x - mean) * torch.rsqrt(variance + 1e-3) + weights[f"norm_{number}/shift"][None, :, None, None])
    return x.mean((2, 3)) @ weights["dense/kernel"] + weights["dense/bias"]


def module_of(spec, weights):
    """The same network as a `torch.nn.Module`, whose parameters are those that the inner loop adapts, and the rest."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.paths = [path for path in weights if moves(path)]
            self.moving = torch.nn.ParameterList([torch.nn.Parameter(weights[path]) for path in self.paths])

        def forward(self, x, fixed):
            return network_of(spec)(dict(zip(self.paths, self.moving, strict=True)) | fixed, x)

    fixed = {path: array.clone().requires_grad_() for path, array in weights.items() if not moves(path)}
    return Net(), fixed


def check_of(module, fixed, weights, gradient):
    """The check of a module: `gradient()` leaves gradients behind and gives the loss; the weights are put back."""
    paths, leaves = [*module.paths, *fixed], [*module.moving, *fixed.values()]

    def put(arrays):
        with torch.no_grad():
            for array, leaf in zip(arrays, leaves, strict=True):
                leaf.copy_(array)

    def check():
        now, start = [leaf.detach().clone() for leaf in leaves], to_torch(weights)
        put([start[path] for path in paths])
        total = gradient()
        gradients = {path: leaf.grad.clone() for path, leaf in zip(paths, leaves, strict=True)}
        put(now)
        return total, from_torch(gradients)

    return check
