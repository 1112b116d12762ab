"""The kernels of the job `kernels` as other compilers of Python have them; each is imported when it is asked for."""

# No `from __future__ import annotations`: Warp and Taichi read the types from the annotations.
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PEERS", "SINGLE"]

SINGLE = ("Warp",)  # those that run on one thread

Made = tuple[Callable[[], Any], Callable[[], np.ndarray]]


def _warp(job: str, args: tuple[Any, ...]) -> Made:
    import warp as wp

    from geomkit.bench import warp_programs

    wp.config.quiet = True
    wp.init()
    kernel = getattr(warp_programs, job)
    vectors = job == "particles"
    kind = wp.vec3 if vectors else wp.float32
    given = [wp.array(x, dtype=kind, device="cpu") if isinstance(x, np.ndarray) else x for x in args]
    n = len(next(x for x in args if isinstance(x, np.ndarray)))
    outputs = [wp.empty(n, dtype=kind, device="cpu") for _ in range(2 if vectors else 1)]
    call = lambda: wp.launch(kernel, dim=n, inputs=given, outputs=outputs, device="cpu")  # noqa: E731
    return call, lambda: np.concatenate([o.numpy() for o in outputs], axis=-1) if vectors else outputs[0].numpy()


def _numba(job: str, args: tuple[Any, ...]) -> Made:
    import numba

    from geomkit.bench import numba_programs

    numba.set_num_threads(min(numba.config.NUMBA_NUM_THREADS, numba.get_num_threads()))
    function = getattr(numba_programs, job)
    given = [np.float32(x) if isinstance(x, float) else x for x in args]
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    outputs = [np.empty_like(arrays[0]) for _ in range(2 if job == "particles" else 1)]
    return lambda: function(*given, *outputs), lambda: np.concatenate(outputs, axis=-1) if outputs[1:] else outputs[0]


def _taichi(job: str, args: tuple[Any, ...]) -> Made:
    import taichi as ti

    if not getattr(ti.lang.impl.get_runtime(), "prog", None):
        ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
    from geomkit.bench import taichi_programs

    function = getattr(taichi_programs, job)
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    outputs = [np.empty_like(arrays[0]) for _ in range(2 if job == "particles" else 1)]
    return lambda: function(*args, *outputs), lambda: np.concatenate(outputs, axis=-1) if outputs[1:] else outputs[0]


def _jax(job: str, args: tuple[Any, ...]) -> Made:
    import jax
    import jax.numpy as jnp

    def saxpy(a: Any, x: Any, y: Any) -> Any:
        return a * x + y

    def mathematics(v: Any) -> Any:
        for _ in range(4):
            v = jnp.sqrt(jnp.exp(-v * v) + 1.5) + jnp.sin(v)
        return v

    def particles(p: Any, v: Any, dt: Any) -> Any:
        v = v - jnp.array([0, 9.81, 0], jnp.float32) * dt
        speed = jnp.sqrt((v * v).sum(axis=1, keepdims=True))
        v = jnp.where(speed > 5, v * (5 / speed), v)
        p = p + v * dt
        turned = jnp.array([1, -1, 1], jnp.float32), jnp.array([1, -0.5, 1], jnp.float32)
        low = p[:, 1:2] < 0
        return jnp.concatenate([jnp.where(low, p * turned[0], p), jnp.where(low, v * turned[1], v)], axis=1)

    function = jax.jit({"saxpy": saxpy, "mathematics": mathematics, "particles": particles}[job])
    given = [jnp.asarray(x) if isinstance(x, np.ndarray) else np.float32(x) for x in args]
    found: list[Any] = [None]

    def run() -> None:
        found[0] = function(*given).block_until_ready()

    return run, lambda: np.asarray(found[0])


PEERS: dict[str, tuple[str, str, str, Callable[[str, tuple[Any, ...]], Made]]] = {
    "warp": ("Warp", "warp", "warp-lang", _warp),
    "numba": ("Numba", "numba", "numba", _numba),
    "taichi": ("Taichi", "taichi", "taichi", _taichi),
    "jax": ("JAX", "jax", "jax", _jax),
}
