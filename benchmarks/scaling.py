"""A model of how a meta-step scales with devices, fitted to measurements on this machine.

python benchmarks/scaling.py

Measured: a step on one device with several numbers of tasks; on two devices of one process and of two processes; an
all-reduce between two processes over loopback, of several sizes. Fitted: a device alone takes start + task * its tasks;
beside another it takes wait + slower * that + all-reduce, because the two wait for each other and share a cache; and
all-reduce = latency * messages + bytes sent / bandwidth, as in a ring. Read off for 8 to 1,024 devices, with the
loopback's latency and bandwidth and with those of an assumed network. What is read off is a model, not measured. The
result goes to benchmarks/results/scaling.json, the plot to benchmarks/results/scaling.svg.
"""

import dataclasses
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from fewstep.machine.provenance import commit

HERE = Path(__file__).resolve().parent
DEVICES = (8, 16, 32, 64, 128, 256, 512, 1024)
TITLES = {"sine": "sine, MT-net", "conv4": "conv4-64, MT-net"}


@dataclasses.dataclass(frozen=True)
class Scaling:
    """What to measure, and the network to assume."""

    sizes: tuple[str, ...] = ("sine", "conv4")
    """Which networks."""
    tasks: tuple[int, ...] = (4, 8, 16, 32)
    """Numbers of tasks on one device."""
    sine_steps: int = 200
    """Steps of a measurement on the sine net."""
    conv4_steps: int = 4
    """Steps of a measurement on conv4."""
    repeats: int = 7
    """Measurements, of which the median counts."""
    per_device: int = 4
    """Tasks of each device in what is read off."""
    latency_us: float = 30.0
    """Latency of a message in the assumed network."""
    gigabits: float = 10.0
    """Bandwidth of the assumed network, in Gbit/s."""
    out: Path = HERE / "results"
    """Folder of the result and the plot."""


def measure(options: Scaling, processes: int, devices: int, reduces: tuple[int, ...] = ()) -> dict[str, Any]:
    """What so many processes with so many devices each take for steps and all-reduces."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    steps = {"sine": options.sine_steps, "conv4": options.conv4_steps}
    asked = {
        "processes": processes, "devices": devices, "coordinator": address, "repeats": options.repeats,
        "steps": [(s, processes * devices * n, steps[s]) for s in options.sizes for n in options.tasks],
        "reduces": reduces,
    }  # fmt: skip
    worker = [sys.executable, str(HERE / "scaling_worker.py")]
    started = [
        subprocess.Popen([*worker, json.dumps(asked | {"process": number})], stdout=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit(f"A worker failed: {[process.returncode for process in started]}")
    (line,) = [line for line in outputs[0].splitlines() if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT "))


def line(x: list[float], y: list[float]) -> tuple[float, float]:
    """Intercept and slope of the line with the least relative squares, neither below 0."""
    columns, weights = np.stack([np.ones(len(x)), x], 1), 1 / np.asarray(y)
    both, *_ = np.linalg.lstsq(columns * weights[:, None], np.ones(len(y)), rcond=None)
    if both[0] < 0:
        return 0.0, float(np.mean(np.asarray(y) / x))
    if both[1] < 0:
        return float(np.mean(y)), 0.0
    return float(both[0]), float(both[1])


def beside(alone: list[float], together: list[float]) -> tuple[float, float]:
    """What a step waits, and how many times longer it takes, at least once, beside another device."""
    wait, slower = line(alone, together)
    return (wait, slower) if slower >= 1 else (max(0.0, float(np.mean(together) - np.mean(alone))), 1.0)


def all_reduce(devices: int, size: int, latency: float, per_byte: float) -> float:
    """Seconds of an all-reduce in a ring: twice round for a device's share, that is 2 (P - 1) messages of size / P."""
    return 2 * (devices - 1) * (latency + size / devices * per_byte)


def read_off(
    fit: dict[str, Any], size: int, per_device: int, networks: dict[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    """The model's step for each number of devices and network, with as many tasks on each device, and with no more
    tasks in all than 8 devices had."""
    rows = []
    for network, (latency, per_byte) in networks.items():
        for devices in DEVICES:
            together = all_reduce(devices, size, latency, per_byte)
            work = lambda tasks: fit["start"] + fit["task"] * tasks
            seconds = fit["wait"] + fit["slower"] * work(per_device) + together
            fixed = fit["wait"] + fit["slower"] * work(-(-8 * per_device // devices)) + together
            rows.append({
                "network": network, "devices": devices, "tasks": devices * per_device, "all_reduce": together,
                "seconds": seconds, "efficiency": work(per_device) / seconds, "seconds_of_the_batch_of_8": fixed,
            })  # fmt: skip
    return rows


def model(options: Scaling, one: Any, several: dict[str, Any]) -> dict[str, Any]:
    """The fits, the model's error on what was measured with two devices, and what is read off for as many processes."""
    reduces = several["2 processes"]["reduces"]
    # Between two: 2 messages of half the bytes each, so seconds = 2 latency + bytes * per_byte.
    twice, per_byte = line([row["bytes"] for row in reduces], [row["seconds"] for row in reduces])
    networks = {
        "loopback": (twice / 2, per_byte),
        "assumed": (options.latency_us * 1e-6, 8 / (options.gigabits * 1e9)),
    }
    found: dict[str, Any] = {"latency": twice / 2, "bandwidth": 1 / per_byte if per_byte else None, "sizes": {}}
    for size in options.sizes:
        rows = [row for row in one["steps"] if row["size"] == size]
        start, task = line([row["tasks"] for row in rows], [row["seconds"] for row in rows])
        carried, checks, fits = one["bytes"][size], [], {}
        for way, result in several.items():
            between = all_reduce(2, carried, *networks["loopback"]) if way == "2 processes" else 0.0
            both = [row for row in result["steps"] if row["size"] == size]
            alone = [start + task * row["tasks"] / 2 for row in both]
            wait, slower = beside(alone, [row["seconds"] - between for row in both])
            fits[way] = {"start": start, "task": task, "wait": wait, "slower": slower}
            for row, own in zip(both, alone, strict=True):
                says = wait + slower * own + between
                checks.append({"way": way, **row, "model": says, "ratio": row["seconds"] / says})
        read = read_off(fits["2 processes"], carried, options.per_device, networks)
        found["sizes"][size] = {"bytes": carried, "fit": fits, "one_device": rows, "two_devices": checks, "model": read}
    return found


def draw(result: dict[str, Any], path: Path) -> None:
    """Efficiency against devices, for each size and network; all of it is the model's."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(result["sizes"]), figsize=(4.2 * len(result["sizes"]), 3.2), squeeze=False)
    for axis, (size, found) in zip(axes[0], result["sizes"].items(), strict=True):
        for network, style in (("loopback", "-o"), ("assumed", "--s")):
            rows = [row for row in found["model"] if row["network"] == network]
            label = "loopback as measured" if network == "loopback" else result["assumed_network"]
            axis.plot([row["devices"] for row in rows], [row["efficiency"] for row in rows], style, label=label, ms=4)
        axis.set(xscale="log", ylim=(0, 1.05), xlabel="devices", ylabel="efficiency (model)", title=TITLES[size])
        axis.set_xticks(DEVICES, [str(n) for n in DEVICES], fontsize=7)
        axis.minorticks_off()
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main(options: Scaling) -> None:
    one = measure(options, 1, 1)
    reduces = tuple(sorted({4, 65_536, 1_048_576, 4_194_304, *one["bytes"].values()}))
    several = {"1 process": measure(options, 1, 2), "2 processes": measure(options, 2, 1, reduces)}
    result = {
        "model": "seconds = wait + slower * (start + task * tasks of a device) + all-reduce in a ring",
        **model(options, one, several),
        "all_reduce_of_two_processes": several["2 processes"]["reduces"],
        "assumed_network": f"assumed: {options.latency_us:g} us, {options.gigabits:g} Gbit/s",
        "per_device": options.per_device, "cores": os.cpu_count(), "commit": commit(),
        "command": " ".join(["python benchmarks/scaling.py", *sys.argv[1:]]), "repeats": options.repeats,
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "scaling.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, options.out / "scaling.svg")
    for size, found in result["sizes"].items():
        for way, fit in found["fit"].items():
            told = ", ".join(f"{name} {value:.2e}" for name, value in fit.items())
            print(f"{size}, {way}: {found['bytes']:,} bytes, {told}")
        for row in found["two_devices"]:
            print(
                f"  2 devices, {row['way']}, {row['tasks']} tasks: {row['seconds']:.2e} s, model {row['model']:.2e} s"
            )
        for row in found["model"]:
            print(
                f"  model, {row['network']}, {row['devices']} devices: {row['seconds']:.2e} s, {row['efficiency']:.2f}"
            )


if __name__ == "__main__":
    main(tyro.cli(Scaling, description=__doc__))
