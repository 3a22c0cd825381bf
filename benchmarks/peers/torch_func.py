"""PyTorch by `torch.func`: MAML over all tasks at once by `vmap`; with `--compile`, the whole gradient compiled; with
`--loop`, one task after the other in Python."""

import sys

import torch
from torch.func import grad, grad_and_value, vmap
from torch_network import from_torch, loss_of, moves, network_of, tasks_of, to_torch
from wire import System, speak, threads


def make(problem):
    torch.set_num_threads(threads())
    spec, params, tasks = problem.spec, to_torch(problem.weights), tasks_of(problem)
    network, loss, rate = network_of(spec), loss_of(spec), spec["inner_lr"]

    def adapt(params, x, y):
        fast = {path: leaf for path, leaf in params.items() if moves(path)}
        inner = grad(lambda some: loss(network({**params, **some}, x), y))
        for _ in range(spec["inner_steps"]):
            steps = inner(fast)
            fast = {path: leaf - rate * steps[path] for path, leaf in fast.items()}
        return {**params, **fast}

    def query_loss(params, x, y, query_x, query_y):
        return loss(network(adapt(params, x, y), query_x), query_y)

    def together(params, *tasks):
        return vmap(query_loss, (None, 0, 0, 0, 0))(params, *tasks).mean()

    one_by_one = grad_and_value(query_loss)
    all_at_once = grad_and_value(together)

    def gradient(params, *tasks):
        if "--loop" not in sys.argv:
            return all_at_once(params, *tasks)
        pairs = [one_by_one(params, *(part[n] for part in tasks)) for n in range(len(tasks[0]))]
        mean = lambda path: torch.stack([grads[path] for grads, _ in pairs]).mean(0)
        return {path: mean(path) for path in params}, torch.stack([value for _, value in pairs]).mean()

    if "--compile" in sys.argv:
        gradient = torch.compile(gradient)
    params = {path: leaf.requires_grad_() for path, leaf in params.items()}
    optimizer = torch.optim.Adam(list(params.values()), spec["outer_lr"])
    plain = lambda: {path: leaf.detach() for path, leaf in params.items()}

    def take(steps):
        for _ in range(steps):
            grads, _ = gradient(plain(), *tasks)
            for path, leaf in params.items():
                leaf.grad = grads[path]
            optimizer.step()

    def check():
        grads, value = gradient(to_torch(problem.weights), *tasks)
        return value, from_torch(grads)

    def learn_one():
        x, y, query_x, _ = (part[0] for part in tasks)
        return network(adapt(plain(), x, y), query_x).numpy()

    return System(check, take, learn_one, f"torch {torch.__version__}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    speak(make)
