"""A kind of problem that a user brings in one file is served like any other."""

import numpy as np
import pytest
from serving import begun, service

from fewstep.models import adapt
from fewstep.runs import load
from fewstep.serve import Client, ServiceError
from fewstep.tasks import batch

pytestmark = pytest.mark.xdist_group("serve")
FILE = """
import jax
from fewstep import Batch, Episode, Tasks
from fewstep.problems import kind, points_problem


def planes(tasks, options, network):
    def make(shots, queries, split="train", ways=None):
        def sample(data, key):
            slope, place = jax.random.split(key)
            x = jax.random.normal(place, (shots + queries, 2))
            y = x @ jax.random.normal(slope, (2, 1))
            part = lambda rows: Batch(x[rows], y[rows], x[rows][:, 0] * 0 + 1)
            return Episode(part(slice(shots)), part(slice(shots, None)))
        return Tasks({}, sample)
    return points_problem(make, network)


PLANES = kind("planes", planes)
"""


def test_a_kind_of_ones_own_is_adapted_and_asked(tmp_path):
    (tmp_path / "planes.py").write_text(FILE)
    run = begun(tmp_path, "mtnet", tasks=f"{tmp_path / 'planes.py'}:PLANES", shots=4)
    x, query = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [[0.5, 0.5], [2.0, -1.0]]
    support = {"x": x, "y": [[2.0], [1.0], [3.0]]}
    with service([run], watch=tmp_path) as (url, _), Client(url, seconds=150) as client:
        told = client.model("mtnet")
        assert (told["kind"], told["tasks"], told["x_width"], told["y_width"]) == ("planes", "planes.py:PLANES", 2, 1)
        assert (told["x_range"], told["image"], told["columns"], told["ways"]) == (None, None, None, None)
        made = client.adapt("mtnet", **support, steps=3)
        assert made["loss_after"] < made["loss_before"]
        by_id = client.predict("mtnet", adapter=made["adapter"], x=query)
        known = adapt(load(run), batch(x, support["y"]), steps=3).answer(np.asarray(query)).mean
        np.testing.assert_allclose(by_id["y"], known, rtol=1e-4, atol=1e-5)
        assert len(client.predict("mtnet", **support, samples=3, query={"x": query})["low"]) == 2
        for wrong, code in (({"x": [[1.0]], "y": [[1.0]]}, "wrong_shape"), ({"columns": {"x": [1]}}, "does_not_apply")):
            with pytest.raises(ServiceError) as error:
                client.adapt("mtnet", **wrong)
            assert (error.value.status, error.value.code) == (422, code)
        with pytest.raises(ServiceError, match="none can be drawn"):
            client.task("mtnet")
        assert client._ask("GET", "/v1/runs")["runs"][0]["metric"] == "mse"


MINE = """
import fewstep
from fewstep import rules, tasks


def rule(inner_lr=0.01, *, share: float = 0.5):
    return rules.maml(inner_lr * share)


def learner(network, loss, *, inner_steps: int = 1):
    return fewstep.gradient_learner(network, rules.tnet(0.01), loss, steps=inner_steps)


def waves(shots, queries):
    return tasks.sinusoid(shots, queries)


def outer(learner):
    return fewstep.first_order(learner)
"""


def test_rules_learners_tasks_and_outer_gradients_of_ones_own_are_served(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    runs = [
        begun(tmp_path / "a", f"{mine}:rule", tasks=f"{mine}:waves", outer=f"{mine}:outer", shots=4),
        begun(tmp_path / "b", f"{mine}:learner", tasks=f"{mine}:waves", shots=4, inner_lr=None),
    ]
    mine.unlink()  # each run has a copy
    support, query = {"x": [[0.0], [1.0], [2.0]], "y": [[0.5], [1.0], [0.3]]}, [[0.5], [1.5]]
    with service(runs) as (url, _), Client(url, seconds=150) as client:
        for run in runs:
            described = client.model(run.name)
            assert "mine.py:" in described["rule"]
            assert str(tmp_path) not in str(described)
            answer = client.predict(run.name, **support, steps=2, query={"x": query})
            expected = adapt(load(run), batch(support["x"], support["y"]), steps=2).answer(np.asarray(query)).mean
            np.testing.assert_allclose(answer["y"], expected, rtol=1e-4, atol=1e-5)
