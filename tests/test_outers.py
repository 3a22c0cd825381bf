"""Each outer gradient against what it stands for; `test_common` has what all of them keep to."""

import json

import jax
import jax.numpy as jnp
import optax
import pytest
from helpers import assert_close, near_start, output

import fewstep
from fewstep import augmentations, losses, outers, rules
from fewstep._streams import VARIANTS
from fewstep.experiments import Experiment, build

KEY = jax.random.key(0)


def one_task(outer, each, meta, task):
    """Loss and outer gradient of one task."""
    return jax.jit(outer(each))(meta, KEY[None], jax.tree.map(lambda leaf: leaf[None], task), jnp.ones(1))


def line(features=3):
    """A linear network without a bias."""
    init = lambda key: {"w": jax.random.normal(key, (features, 1))}
    return fewstep.network(init, lambda params, x: x @ params["w"], jnp.ones((2, features)))


def rows(seed, count=8, features=3):
    of_x, of_y = jax.random.split(jax.random.key(seed))
    return fewstep.Batch(
        jax.random.normal(of_x, (count, features)), jax.random.normal(of_y, (count, 1)), jnp.ones(count)
    )


def pulled(lr):
    """Gradient steps with a pull to the start, which the inner optimizer keeps: the pull of `near_start(0.5)`."""
    pull = lambda gradient, start, fast: ({p: g + fast[p] - start[p] for p, g in gradient.items()}, start)
    update = lambda layers, meta, key: optax.GradientTransformation(lambda fast: fast, pull)
    return fewstep.chain(fewstep.link("pull", fewstep.Stage.SHAPE, update=update), rules.sgd(lr))


@pytest.mark.parametrize(
    ("outer", "rule", "pull"),
    [
        (outers.implicit(200, "cg", 5), rules.maml, 0.5),
        (outers.implicit(200, "neumann", 200), pulled, 0.0),
    ],
    ids=["cg, inner loss", "neumann, link"],
)
def test_implicit_is_the_closed_form_of_linear_regression(outer, rule, pull):
    """The inner loss has its lowest point at `(X'X / n + I / 2)^-1 (X'y / n + start / 2)`."""
    with jax.enable_x64(True):
        each = linear(rule, 0.2, pull)
        meta, task = each.init(KEY), fewstep.Episode(rows(1), rows(2))
        loss, gradient = one_task(outer, each, meta, task)
        (x, y, _), (qx, qy, _) = task
        inverse = jnp.linalg.inv(x.T @ x / 8 + 0.5 * jnp.eye(3))
        lowest = lambda start: inverse @ (x.T @ y / 8 + 0.5 * start)
        exact = jax.value_and_grad(lambda start: jnp.mean((qx @ lowest(start) - qy) ** 2))(meta["weights"]["w"])
        assert_close((loss[0], gradient["weights"]["w"]), exact, 1e-5)


def bent():
    """The same behind a tanh."""
    flat = line()
    return fewstep.network(flat.init, lambda params, x: jnp.tanh(x @ params["w"]), jnp.ones((2, 3)))


def linear(rule=rules.maml, lr=0.1, pull=0.5, network=None, **options):
    """A learner of lines whose steps come to rest, if there is a pull to the start."""
    inner = near_start(pull) if pull else None
    return fewstep.gradient_learner(network or line(), rule(lr), losses.squared_error, inner_loss=inner, **options)


LINES = fewstep.Episode(rows(1), rows(2))


@pytest.mark.slow
def test_the_memory_of_implicit_does_not_grow_with_the_steps():
    def memory(outer, steps):
        each = linear(network=bent(), steps=steps)
        given = each.init(KEY), KEY[None], jax.tree.map(lambda leaf: leaf[None], LINES), jnp.ones(1)
        return jax.jit(outer(each)).lower(*given).compile().memory_analysis().temp_size_in_bytes

    flat = memory(outers.implicit(500), 500)
    assert flat == memory(outers.implicit(5), 5)
    assert memory(fewstep.unrolled, 500) > 5 * flat


@pytest.mark.parametrize(
    ("rule", "pull", "words"),
    [
        (rules.maml, 0, "1 arrays of the start"),
        (rules.meta_sgd, 0.5, "the rates"),
        pytest.param(rules.mtnet, 0.5, "the mask", marks=pytest.mark.slow),
    ],
)
def test_implicit_refuses_what_has_no_part_in_the_point_of_rest(rule, pull, words):
    each = linear(rule, pull=pull)
    with pytest.raises(fewstep.FewstepError, match=f"does not depend on {words}, which"):
        jax.eval_shape(lambda: one_task(outers.implicit(), each, each.init(KEY), LINES))


def test_implicit_takes_a_learned_loss_and_a_metric_and_needs_steps():
    learned = fewstep.LearnedLoss(
        lambda key: {"power": jnp.ones(())},
        lambda meta, prediction, batch, context: near_start(0.5)(meta, prediction, batch, context) ** meta["power"],
    )
    each = fewstep.gradient_learner(line(), rules.tnet(0.01), losses.squared_error, inner_loss=learned)
    _, gradient = jax.eval_shape(lambda: one_task(outers.implicit(), each, each.init(KEY), LINES))
    assert set(gradient) == {"weights", "metric", "power"}
    with pytest.raises(fewstep.FewstepError, match="does not learn a task by gradient steps"):
        outers.implicit()(each._replace(step=None))


def level_learner(loss):
    """A learner of one number, `level`, that learns nothing of a task."""
    init = lambda key: {"level": jnp.zeros(())}
    nothing = lambda meta, key, support, steps: fewstep.Adapted({}, ())
    predict = lambda meta, adapted, x, weight=None: jnp.zeros_like(x) + meta["level"]
    return fewstep.Learner(init, lambda meta, key, episode: loss(meta["level"]), nothing, predict)


def assert_unbiased(estimates, exact):
    """The mean of many estimates is within four standard errors of the exact gradient."""
    count = jax.tree.leaves(estimates)[0].shape[0]
    for some, truth in zip(jax.tree.leaves(estimates), jax.tree.leaves(exact), strict=True):
        error = 4 * some.std(0) / count**0.5
        assert (abs(some.mean(0) - truth) < error + 1e-6).all()
        assert (error < 0.3 * abs(truth).max()).all()  # the test can fail


def estimates(outer, each, meta, task, count):
    """The outer gradients of one task for many keys."""
    some, keys = jax.tree.map(lambda leaf: leaf[None], task), jax.random.split(KEY, (count, 1))
    return jax.jit(jax.vmap(lambda keys: outer(each)(meta, keys, some, jnp.ones(1))[1]))(keys)


def test_evolution_is_unbiased_for_the_smoothed_loss():
    """Of a step at 0.3, which has no derivative: smoothed by noise it has the normal density's."""
    jump = level_learner(lambda level: (level > 0.3).astype(level.dtype))
    smooth = jax.scipy.stats.norm.pdf(0.0, loc=0.3, scale=0.5)
    some = estimates(outers.evolution(pairs=2, std=0.5), jump, {"level": jnp.zeros(())}, LINES, 4_000)
    assert_unbiased(some["level"], smooth)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_evolution_is_unbiased_for_a_learner(whole):
    """The loss is quadratic in the start of a line, so smoothing changes no slope; `whole` is its mean."""
    each = linear(pull=None)
    meta = each.init(KEY)
    exact = jax.jit(jax.grad(each.loss))(meta, KEY, LINES)["weights"]["w"]
    some = estimates(outers.evolution(pairs=2, std=0.1, whole=whole), each, meta, LINES, 4_000)["weights"]["w"]
    assert_unbiased(some, jnp.full_like(exact, exact.mean()) if whole else exact)


def test_evolution_moves_what_it_is_asked_to_and_unrolls_the_rest():
    each = linear(rules.meta_sgd, pull=None)
    meta = each.init(KEY)
    loss, exact = one_task(fewstep.unrolled, each, meta, LINES)
    value, gradient = one_task(outers.evolution(of=("rates",), pairs=1), each, meta, LINES)
    assert_close((value, gradient["weights"]), (loss, exact["weights"]))
    assert abs(gradient["rates"]["w"] - exact["rates"]["w"]).max() > 0
    with pytest.raises(fewstep.FewstepError, match=r"`of` names speed, .* Its meta-parameters are rates, weights."):
        one_task(outers.evolution(of=("speed",)), each, meta, LINES)


def sides(seed_of_data, key):
    """Which side of a random line through the origin: two classes."""
    of_line, of_x = jax.random.split(key)
    x = jax.random.normal(of_x, (20, 2))
    y = (x @ jax.random.normal(of_line, (2,)) > 0).astype(int)
    return fewstep.Episode(*(fewstep.Batch(x[part], y[part], jnp.ones(10)) for part in (slice(10), slice(10, 20))))


def test_evolution_trains_rates_on_accuracy():
    """From rates of 0, where every answer is the same, by the share of wrong answers alone."""
    network = fewstep.network(lambda key: {"w": jnp.zeros((2, 2))}, lambda p, x: x @ p["w"], jnp.ones((2, 2)))
    each = fewstep.gradient_learner(network, rules.meta_sgd(0.0), losses.cross_entropy)
    outer = outers.evolution(of=("rates",), whole=True, score="error_rate", std=0.1)
    tasks = fewstep.Tasks((), sides)
    trained = fewstep.train(each, tasks, steps=30, outer=outer, optimizer=optax.adam(0.02), log_every=10)
    before, *_, after = (row.loss[0] for row in trained.log)
    assert after < before
    score = fewstep.evaluate(each, trained.meta, tasks, losses.error_rate, steps=(1,), n_tasks=100)[0]
    assert score.mean < 0.3
    assert trained.meta["rates"]["w"].mean() > 0.01


def test_reinforce_is_unbiased_for_the_expected_loss():
    """Against the sum over all masks of three outputs, each with its probability."""
    flat = fewstep.network(lambda key: {"w": jnp.ones((2, 3))}, lambda p, x: x @ p["w"], jnp.ones((2, 2)))
    each = fewstep.gradient_learner(flat, rules.mnet(0.3), losses.squared_error)
    task = fewstep.Episode(
        *(fewstep.Batch(b.x[:, :2], jnp.tile(b.y, 3) * jnp.arange(3.0)[None], b.weight) for b in LINES)
    )
    meta = each.init(KEY)
    (path,) = meta["mask"]
    meta["mask"][path] = jnp.array([0.5, -0.5, 1.0])
    every = jnp.stack(jnp.meshgrid(*[jnp.arange(2.0)] * 3), -1).reshape(8, 3)

    def expected(meta):
        chances = jax.nn.sigmoid(meta["mask"][path])
        of_mask = lambda bits: each.loss(meta | {"mask": {path: 80 * bits - 40}}, KEY, task)
        return jnp.sum(jnp.prod(jnp.where(every == 1, chances[None], 1 - chances[None]), 1) * jax.vmap(of_mask)(every))

    exact = jax.jit(jax.grad(expected))(meta)
    assert_unbiased(estimates(outers.reinforce(draws=3), each, meta, task, 4_000), exact)
    with pytest.raises(fewstep.FewstepError, match="needs a mask with one bit per unit"):
        one_task(outers.reinforce(), linear(), linear().init(KEY), LINES)


def test_sharp_takes_the_gradient_uphill():
    """Of a line with one inner step, outside by hand; inside a step follows the gradient at a moved point."""
    each = linear(pull=None, network=bent())
    meta, rho = each.init(KEY), 0.3
    slope = jax.jit(jax.grad(each.loss))
    first = slope(meta, KEY, LINES)["weights"]["w"]
    moved = {"weights": {"w": meta["weights"]["w"] + rho * first / jnp.linalg.norm(first)}}
    _, outside = one_task(outers.sharp("outside", rho), each, meta, LINES)
    assert_close(outside, slope(moved, KEY, LINES))
    inner = jax.grad(lambda w: losses.squared_error(jnp.tanh(LINES.support.x @ w), LINES.support))
    begin = meta["weights"]["w"]
    uphill = inner(begin + rho * inner(begin) / jnp.linalg.norm(inner(begin)))
    carry, take = each.step(meta, KEY, LINES.support, sharpness=rho)
    assert_close(take(carry, 0).fast["w"], begin - 0.1 * uphill)
    assert_close(one_task(outers.sharp("both", 0.0), each, meta, LINES), one_task(fewstep.unrolled, each, meta, LINES))
    with pytest.raises(fewstep.FewstepError, match="where='both' changes inner steps, and this learner takes none"):
        outers.sharp()(level_learner(jnp.square))


def test_hardest_is_the_worst_variant():
    """Shifts by what the key draws: the gradient is that of the variant with the highest loss, plain for no change."""
    each = linear(pull=None)
    meta = each.init(KEY)
    loss, gradient = one_task(outers.hardest(5, augmentations.label_shift(2.0)), each, meta, LINES)
    keys = jax.random.split(jax.random.fold_in(KEY, VARIANTS), 5)
    variants = [augmentations.label_shift(2.0)(key, LINES) for key in keys]
    both = jax.jit(jax.value_and_grad(each.loss))
    worst = max((both(meta, KEY, one) for one in variants), key=lambda pair: float(pair[0]))
    assert_close((loss[0], gradient), worst)
    same = outers.hardest(3, lambda key, episode: episode)
    assert_close(one_task(same, each, meta, LINES), one_task(fewstep.unrolled, each, meta, LINES))


def test_a_moving_average_is_kept_beside_the_last():
    """By hand, of what an outer step of 1 leaves; the training itself is the same."""
    each = level_learner(lambda level: (level - 1.0) ** 2)
    tasks = fewstep.Tasks((), sides)
    train = lambda **options: fewstep.train(each, tasks, steps=3, optimizer=optax.sgd(0.25), **options)
    plain, kept = train(), train(ema=0.2, seed=[0, 1])
    levels, average = [0.5, 0.75, 0.875], 0.0
    for step, level in enumerate(levels):
        decay = min(0.2, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * level
    assert plain.average is None
    assert_close((plain.meta["level"], kept.meta["level"]), (jnp.asarray(0.875), jnp.full(2, 0.875)))
    assert_close(kept.average["level"], jnp.full(2, average))
    with pytest.raises(fewstep.FewstepError, match=r"ema is 2\. It is the decay of an average"):
        train(ema=2)


def task_of_images(labels=(0, 1, 2, 0)):
    x = jax.random.uniform(KEY, (2, 4, 6, 6, 1))
    part = lambda number: fewstep.Batch(x[number], jnp.asarray(labels), jnp.array([1.0, 1.0, 1.0, 0.0]))
    return fewstep.Episode(part(0), part(1))


def test_labels_shift_alike_in_a_whole_task():
    task = LINES
    shifted = augmentations.label_shift(3.0)(KEY, task)
    by = shifted.support.y - task.support.y
    assert_close(shifted.query.y - task.query.y, jnp.full_like(task.query.y, by[0, 0]))
    assert_close(by, jnp.full_like(by, by[0, 0]))
    assert abs(by[0, 0]) > 0.01
    with pytest.raises(fewstep.FewstepError, match="'label_shift' is for numbers to predict, and y is of int32"):
        augmentations.label_shift()(KEY, task_of_images())


def test_a_class_turns_as_a_whole():
    task = task_of_images()
    turned = augmentations.turn(1.0)(KEY, task)
    for part, plain in zip(turned, task, strict=True):
        for row in range(4):
            turns = [k for k in range(4) if (jnp.rot90(plain.x[row], k) == part.x[row]).all()]
            assert turns
            assert turns[0] > 0
    same = [jnp.rot90(task.support.x[0], k) for k in range(4)]
    (of_first,) = [k for k in range(4) if (same[k] == turned.support.x[0]).all()]
    assert (jnp.rot90(task.query.x[3], of_first) == turned.query.x[3]).all()
    assert (augmentations.turn(0.0)(KEY, task).query.x == task.query.x).all()
    with pytest.raises(fewstep.FewstepError, match="'turn' is for images with labels"):
        augmentations.turn()(KEY, LINES)


def test_erasing_takes_a_box_of_the_query():
    task = task_of_images()
    erased = augmentations.erase(0.25)(KEY, task)
    changed = (erased.query.x != task.query.x)[..., 0]
    assert (changed.sum((1, 2)) == 9).all()  # 3 x 3 of 6 x 6
    assert (erased.support.x == task.support.x).all()
    assert (augmentations.erase(0.25, "support")(KEY, task).query.x == task.query.x).all()


def test_cutmix_counts_each_label_by_its_share():
    task = task_of_images()
    mixed = augmentations.cutmix()(KEY, task).query
    assert mixed.x.shape[0] == 8
    assert_close(mixed.x[:4], mixed.x[4:])
    assert_close(mixed.weight[:4] + mixed.weight[4:], task.query.weight)
    theirs = (mixed.x[:4] != task.query.x)[..., 0].mean((1, 2))
    cut = theirs[:3] > 0  # one that was cut from itself shows nothing
    assert_close(mixed.weight[4:7][cut], theirs[:3][cut])
    assert theirs.max() > 0
    assert (mixed.y[:4] == task.query.y).all()
    assert (mixed.weight[4:][mixed.y[4:] != task.query.y] >= 0).all()


def test_augmented_tasks_are_changed_as_they_are_drawn():
    plain = fewstep.Tasks((), lambda data, key: LINES)
    some = augmentations.augmented(plain, augmentations.label_shift(), augmentations.label_shift())
    first, second = (some.sample((), jax.random.key(seed)).support.y - LINES.support.y for seed in (0, 1))
    assert abs(first[0, 0] - second[0, 0]) > 0.01


@pytest.mark.slow
def test_evolution_learns_how_strong_an_augmentation_should_be():
    """Support labels are 1 too low; the augmentation adds its strength to them."""
    low = LINES._replace(support=LINES.support._replace(y=LINES.support.x[:, :1] - 1))
    low = low._replace(query=low.query._replace(y=low.query.x[:, :1]))

    def raised(strength):
        return lambda key, episode: episode._replace(support=episode.support._replace(y=episode.support.y + strength))

    first = fewstep.network(lambda key: {"b": jnp.zeros(1)}, lambda p, x: x[:, :1] + p["b"][None], jnp.ones((2, 3)))
    plain = fewstep.gradient_learner(first, rules.maml(0.4), losses.squared_error)
    each = augmentations.learned(plain, raised, start=0.0)
    outer = outers.evolution(of=("augmentation",), pairs=2, std=0.1)
    drawn = fewstep.Tasks((), lambda data, key: low)
    only = optax.masked(optax.set_to_zero(), {"weights": True, "augmentation": False})
    trained = fewstep.train(each, drawn, steps=60, outer=outer, optimizer=optax.chain(only, optax.sgd(0.2)))
    assert abs(trained.meta["augmentation"]["strength"] - 1) < 0.1


SCORE = '''"""A score without a derivative."""

import jax.numpy as jnp


def score(prediction, batch):
    """The share of predictions that are off by more than one."""
    return jnp.mean(jnp.abs(prediction - batch.y) > 1.0)
'''


def test_the_command_line_trains_rates_on_a_score_of_the_users_and_keeps_an_average(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(SCORE)
    train = ["train", "meta_sgd", "sinusoid", "--outer", "evolution", "--of", "rates", "--score"]
    sizes = ["--hidden", 4, "--steps", 2, "--meta-batch", 2, "--pairs", 2, "--validation-tasks", 2, "--no-report"]
    run = tmp_path / "run"
    code, _, said = output(capsys, *train, f"{tmp_path / 'mine.py'}:score", *sizes, "--ema", 0.9, "--run", run)
    assert code == 0, said
    code, printed, said = output(capsys, "eval", run, "--n-tasks", 2, "--inner-steps", 1, "--json")
    assert code == 0, said
    result = json.loads(printed)
    assert result["average"][0]["mean"] != result["rows"][0]["mean"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outer": "implicit"}, "Implicit gradients cannot train this rule"),
        ({"outer": "reinforce"}, "needs a mask with one bit per unit"),
        ({"outer": "evolution", "of": ("rates",)}, "`of` names rates, which the rule does not have"),
        ({"outer": "hardest"}, "'cutmix' is for images"),
        ({"outer": "hardest", "augment": "flip"}, "Unknown augment 'flip'"),
        ({"outer": "sharp", "pairs": 3}, "`pairs` does not apply"),
        ({"keep": "average"}, "no moving average is kept"),
    ],
)
def test_what_an_outer_gradient_does_not_train_is_said_before_a_run_begins(options, words):
    with pytest.raises(fewstep.FewstepError, match=words):
        build(Experiment("maml", "sinusoid", hidden=(4,), **options)).check_data()
