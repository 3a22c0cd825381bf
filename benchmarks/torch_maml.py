"""A MAML step of PyTorch by `torch.func.vmap`, timed when asked: one number of steps a line in, seconds out.

Run by omniglot_speed.py in an environment that has torch. Same network, sizes and inner step as there; tasks are drawn
before the clock starts, which favors PyTorch.
"""

import sys
import time

import torch
from torch.func import grad, vmap
from torch.nn.functional import conv2d, cross_entropy, relu

WAYS, TASKS, FILTERS, LR = 5, 32, 64, 2.0


def network(params: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    for n in range(4):
        x = conv2d(x, params[f"kernel_{n}"], params[f"bias_{n}"], stride=2, padding=1)
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
        x = relu((x - mean) * torch.rsqrt(variance + 1e-3) + params[f"shift_{n}"][None, :, None, None])
    return x.mean((2, 3)) @ params["kernel"] + params["bias"]


def query_loss(params, support, query, labels):  # type: ignore[no-untyped-def]
    fast = {name: leaf for name, leaf in params.items() if not name.startswith("shift")}
    gradient = grad(lambda some: cross_entropy(network({**params, **some}, support), labels))(fast)
    adapted = {name: leaf - LR * gradient[name] for name, leaf in fast.items()}
    return cross_entropy(network({**params, **adapted}, query), labels)


def main() -> None:
    torch.manual_seed(0)
    params, units = {}, 1
    for n in range(4):
        params[f"kernel_{n}"] = torch.randn(FILTERS, units, 3, 3) * (2 / (9 * units)) ** 0.5
        params[f"bias_{n}"], params[f"shift_{n}"] = torch.zeros(FILTERS), torch.zeros(FILTERS)
        units = FILTERS
    params["kernel"], params["bias"] = 0.01 * torch.randn(FILTERS, WAYS), torch.zeros(WAYS)
    params = {name: leaf.requires_grad_() for name, leaf in params.items()}
    optimizer = torch.optim.Adam(list(params.values()), 1e-3)
    support, query = torch.rand(2, TASKS, WAYS, 1, 28, 28)
    labels = torch.arange(WAYS).expand(TASKS, WAYS)

    def step() -> None:
        loss = vmap(query_loss, (None, 0, 0, 0))(params, support, query, labels).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    print(torch.__version__, torch.get_num_threads(), flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line)):
            step()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
