r"""A few pixels of an image, any color: found by differential evolution, without a gradient.

    candidate = a + .5 (b - c)   of three members, kept where it is worse for the label

Reference: Su, Vargas & Sakurai, One Pixel Attack for Fooling Deep Neural Networks, IEEE TEVC 2019; Storn & Price,
Differential Evolution, 1997.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._errors import FewstepError
from fewstep.attacks._attack import Answers, Attack, Budget, Objective, margin
from fewstep.attacks._ball import of_row

_FACTOR = 0.5


def one_pixel(pixels: int = 1, *, population: int = 60, rounds: int = 40, objective: Objective = margin) -> Attack:
    """The worst `pixels` of each image, of a population that evolves for so many rounds. The budget counts pixels: with
    less than `pixels` nothing changes.

    Example::

        perturbed = one_pixel().perturb(key, answers, x, y, Budget(1))
    """
    if pixels < 1 or population < 4 or rounds < 1:
        raise FewstepError(
            f"pixels={pixels}, population={population}, rounds={rounds}: give 1 or more, 4 or more, 1 or more."
        )

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        if x.ndim != 4:
            raise FewstepError(
                f"one_pixel changes pixels of images, and a row of x has shape {x.shape[1:]}. Use pgd or square."
            )
        rows, high, wide, channels = x.shape
        low, top = of_row(budget.low, x), of_row(budget.high, x)
        genes = 2 + channels  # of a pixel: where, from 0 to 1, and its color, from 0 to 1

        def paint(member: Array) -> Array:
            """The images with the pixels of one member each: (rows, pixels, genes)."""
            sides = jnp.broadcast_to(jnp.asarray([high, wide], x.dtype) - 1e-3, (rows, pixels, 2))
            place = jnp.clip(member[..., :2], 0, 1) * sides
            first, last = (end[:, :1, 0, :].repeat(pixels, axis=1) for end in (low, top))
            color = first + jnp.clip(member[..., 2:], 0, 1) * (last - first)
            at = place.astype(int)
            return x.at[jnp.arange(rows)[:, None].repeat(pixels, axis=1), at[..., 0], at[..., 1]].set(
                color.astype(x.dtype)
            )

        def value(members: Array) -> Array:
            """How bad each is for its label: (population, rows)."""
            return jax.lax.map(lambda member: objective(answers(paint(member)), y), members)

        def evolve(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            members, values = carry
            own = jax.random.fold_in(key, number + 1)
            order = jax.vmap(lambda k: jax.random.permutation(k, population))(jax.random.split(own, 3))
            first, second, third = (members[one] for one in order)
            children = first + _FACTOR * (second - third)
            children_values = value(children)
            better = children_values > values
            return jnp.where(better[..., None, None], children, members), jnp.where(better, children_values, values)

        members = jax.random.uniform(key, (population, rows, pixels, genes))
        members, values = jax.lax.fori_loop(0, rounds, evolve, (members, value(members)))
        best = jnp.take_along_axis(members, jnp.argmax(values, axis=0)[None, :, None, None], axis=0)[0]
        return jnp.where(budget.eps >= pixels, paint(best), x)

    return Attack(perturb, "l0", gradient=False)
