"""`higher`: a module is copied for each task and adapted by a differentiable SGD; tasks one after the other."""

import higher
import torch
from torch_network import check_of, loss_of, module_of, tasks_of, to_torch
from wire import System, speak, threads, versions


def make(problem):
    torch.set_num_threads(threads())
    spec, tasks = problem.spec, tasks_of(problem)
    module, fixed = module_of(spec, to_torch(problem.weights))
    loss, inner = loss_of(spec), torch.optim.SGD(module.parameters(), spec["inner_lr"])
    everything = [*module.moving, *fixed.values()]
    outer = torch.optim.Adam(everything, spec["outer_lr"])

    def of_task(n, *, train):
        x, y, query_x, query_y = (part[n] for part in tasks)
        with higher.innerloop_ctx(module, inner, copy_initial_weights=False, track_higher_grads=train) as (net, steps):
            for _ in range(spec["inner_steps"]):
                steps.step(loss(net(x, fixed), y))
            prediction = net(query_x, fixed)
            return prediction if not train else loss(prediction, query_y) / len(tasks[0])

    def gradient():
        outer.zero_grad()
        total = 0.0
        for n in range(len(tasks[0])):
            value = of_task(n, train=True)
            value.backward()
            total += float(value)
        return total

    def take(steps):
        for _ in range(steps):
            gradient()
            outer.step()

    check = check_of(module, fixed, problem.weights, gradient)

    return System(
        check, take, lambda: of_task(0, train=False).detach().numpy(),
        versions("higher", "torch"),
    )  # fmt: skip


if __name__ == "__main__":
    speak(make)
