"""A mesh of devices, on one machine or on many: what all hold alike, and work that they share."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree


def everywhere(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """A tree of arrays on every device of a mesh. Each process of several gives the same arrays and keeps its own."""
    if mesh is None:
        return jax.device_put(tree)
    whole = NamedSharding(mesh, PartitionSpec())
    if not mesh.is_multi_process:
        return jax.device_put(tree, whole)

    def copies(leaf: Array | np.ndarray) -> jax.Array:
        leaf = jnp.asarray(leaf)
        if not leaf.is_fully_addressable:  # spread already
            return leaf
        # Not device_put, which gathers the arrays of all processes in each of them to see that they are equal.
        own = [jax.device_put(leaf, device) for device in mesh.local_devices]
        return jax.make_array_from_single_device_arrays(leaf.shape, whole, own)

    return jax.tree.map(copies, tree)


def on_mesh(
    draw: Callable[..., PyTree], on_device: Callable[..., PyTree], mesh: Mesh
) -> tuple[Callable[..., PyTree], Callable[..., PyTree]]:
    """Drawing, its last argument spread over the devices, and the sum over them of what a function gives on each for
    what was drawn, its second argument."""
    whole, (axis,) = PartitionSpec(), mesh.axis_names
    spread, total = PartitionSpec(axis), _in_one_message if mesh.is_multi_process else jax.lax.psum
    # Without the check a gradient stays local until the sum; with it, JAX would have summed it already.
    on = partial(jax.shard_map, mesh=mesh, check_vma=False)
    summed = lambda *args: total(on_device(*args), axis)
    return (
        on(draw, in_specs=(whole, whole, spread), out_specs=spread),
        on(summed, in_specs=(whole, spread, whole), out_specs=whole),
    )


def _in_one_message(tree: PyTree, axis: str) -> PyTree:
    """The sum over an axis. Between processes on CPUs each array would be a message of its own, with its latency."""
    flat, back = ravel_pytree(tree)
    return back(jax.lax.psum(flat, axis))
