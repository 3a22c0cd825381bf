"""`torchopt`: a module adapted in place by `MetaSGD`, its state taken out and put back for each task."""

import torch
import torchopt
from torch_network import check_of, loss_of, module_of, tasks_of, to_torch
from wire import System, speak, threads, versions


def make(problem):
    torch.set_num_threads(threads())
    spec, tasks = problem.spec, tasks_of(problem)
    module, fixed = module_of(spec, to_torch(problem.weights))
    loss, inner = loss_of(spec), torchopt.MetaSGD(module, lr=spec["inner_lr"])
    everything = [*module.moving, *fixed.values()]
    outer = torch.optim.Adam(everything, spec["outer_lr"])

    def of_task(n):
        x, y, query_x, query_y = (part[n] for part in tasks)
        for _ in range(spec["inner_steps"]):
            inner.step(loss(module(x, fixed), y))
        prediction = module(query_x, fixed)
        return prediction, loss(prediction, query_y) / len(tasks[0])

    def gradient():
        outer.zero_grad()
        net, memory = torchopt.extract_state_dict(module), torchopt.extract_state_dict(inner)
        total = 0.0
        for n in range(len(tasks[0])):
            _, value = of_task(n)
            value.backward()
            total += float(value)
            torchopt.recover_state_dict(module, net)
            torchopt.recover_state_dict(inner, memory)
        return total

    def take(steps):
        for _ in range(steps):
            gradient()
            outer.step()

    check = check_of(module, fixed, problem.weights, gradient)

    def adapt():
        net, memory = torchopt.extract_state_dict(module), torchopt.extract_state_dict(inner)
        prediction, _ = of_task(0)
        torchopt.recover_state_dict(module, net)
        torchopt.recover_state_dict(inner, memory)
        return prediction.detach().numpy()

    return System(check, take, adapt, versions("torchopt", "torch"))


if __name__ == "__main__":
    speak(make)
