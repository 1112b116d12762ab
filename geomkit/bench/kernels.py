"""Job `kernels`: kernels written in Python, beside those of other compilers: streams, mathematics, branches, a call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import geomkit as gk
from geomkit.bench import kernel_neighbors
from geomkit.bench.kernel_peers import PEERS, SINGLE
from geomkit.bench.kernel_start import start
from geomkit.bench.peer import installed, processors
from geomkit.bench.race import REST, Task, race
from geomkit.bench.row import Row, printing, table
from geomkit.runtime import host

__all__ = ["JOBS", "main"]

CLOSE = 2e-5  # of the largest value, in float32
SMALL = 16  # threads of the launch that is all overhead
CALLS = 2000  # of it in one run


@gk.kernel
def saxpy(a: gk.f32, x: gk.array(gk.f32), y: gk.array(gk.f32), z: gk.array(gk.f32)) -> None:  # pyright: ignore
    """z = a x + y."""
    i = gk.tid()
    z[i] = a * x[i] + y[i]


@gk.kernel
def mathematics(x: gk.array(gk.f32), y: gk.array(gk.f32)) -> None:  # pyright: ignore
    """Four times a sine, an exponential and a root."""
    i = gk.tid()
    v = x[i]
    for _ in range(4):
        v = gk.sqrt(gk.exp(-v * v) + 1.5) + gk.sin(v)
    y[i] = v


@gk.kernel
def particles(
    p: gk.array(gk.vec3), v: gk.array(gk.vec3), dt: gk.f32,  # pyright: ignore
    q: gk.array(gk.vec3), w: gk.array(gk.vec3),  # pyright: ignore
) -> None:  # fmt: skip
    """A step of particles that fall, are dragged when they are fast, and bounce off the ground."""
    i = gk.tid()
    velocity = v[i]
    velocity.y = velocity.y - 9.81 * dt
    speed = gk.length(velocity)
    if speed > 5.0:
        velocity = velocity * (5.0 / speed)
    place = p[i] + velocity * dt
    if place.y < 0.0:
        place.y = -place.y
        velocity.y = -0.5 * velocity.y
    q[i] = place
    w[i] = velocity


def inputs(n: int) -> dict[str, tuple[Any, ...]]:
    """The arguments of each job."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=n).astype(np.float32) for _ in range(2))
    p, v = (rng.normal(size=(n, 3)).astype(np.float32) for _ in range(2))
    return {"saxpy": (2.5, x, y), "mathematics": (x,), "particles": (p, 4 * v, 0.02)}


def expected(job: str, args: tuple[Any, ...]) -> np.ndarray:
    """The result in float64, by NumPy."""
    a = [np.asarray(x, np.float64) for x in args]
    if job == "saxpy":
        return a[0] * a[1] + a[2]
    if job == "mathematics":
        v = a[0]
        for _ in range(4):
            v = np.sqrt(np.exp(-v * v) + 1.5) + np.sin(v)
        return v
    p, v, dt = a
    v = v - [0, 9.81, 0] * dt
    speed = np.linalg.norm(v, axis=1, keepdims=True)
    v = np.where(speed > 5, v * (5 / speed), v)
    p = p + v * dt
    low = p[:, 1] < 0
    p[low, 1], v[low, 1] = -p[low, 1], -0.5 * v[low, 1]
    return np.concatenate([p, v], axis=1)


JOBS = ("saxpy", "mathematics", "particles", "launch", "neighbors", "cold start", "warm start")


def _own(job: str, args: tuple[Any, ...]) -> tuple[Callable[[], Any], Callable[[], np.ndarray]]:
    """What runs geomkit's kernel, and what reads the result."""
    if job == "saxpy":
        a, x, y = args
        z = np.empty_like(x)
        return lambda: saxpy(len(x), a, x, y, z), lambda: z
    if job == "mathematics":
        (x,) = args
        z = np.empty_like(x)
        return lambda: mathematics(len(x), x, z), lambda: z
    p, v, dt = args
    q, w = np.empty_like(p), np.empty_like(v)
    return lambda: particles(len(p), p, v, dt, q, w), lambda: np.concatenate([q, w], axis=1)


def main(arguments: Sequence[str]) -> int:
    """Run the job; rows go to standard output, the table to standard error.

    Args:
        arguments: what follows `kernels` on the command line.

    Returns:
        the exit status: 1 if some of geomkit's values are wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m geomkit.bench kernels", description=__doc__)
    parser.add_argument("--n", metavar="N", type=int, default=1 << 20, help="threads of a launch (default 1048576)")
    parser.add_argument("--particles", metavar="N,...", default="100000,1000000", help="of the job neighbors")
    parser.add_argument("--jobs", metavar="NAME,...", default=",".join(JOBS), help=f"some of {', '.join(JOBS)}")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {','.join(PEERS)}, or none")
    parser.add_argument("--repeat", metavar="N", type=int, default=20, help="runs of each, the best counts (20)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows to this file, too")
    options = parser.parse_args(arguments)
    peers = [] if options.peers == "none" else options.peers.split(",")
    if set(peers) - set(PEERS):
        parser.error(f"--peers: expected some of {','.join(PEERS)}, got {options.peers}")
    jobs = options.jobs.split(",")
    if set(jobs) - set(JOBS):
        parser.error(f"--jobs: expected some of {','.join(JOBS)}, got {options.jobs}")
    particles = [int(n) for n in options.particles.split(",") if n.isdigit()]
    if min(options.n, options.repeat, *particles) < 1:
        parser.error("expected at least one thread and one run")
    peers = installed(PEERS, peers)
    host.set_num_threads(min(host.num_threads(), processors()))
    rows: list[Row] = []
    with printing(options.json) as report:
        for job in jobs:
            for n in particles if job == "neighbors" else [options.n]:
                if job.endswith("start"):
                    found = _starts(job, peers)
                else:
                    found = _contest(job, n, peers, options.repeat if job != "neighbors" else min(options.repeat, 5))
                report(found)
                rows += found
    table(rows)
    return 1 if any(row.own and row.check != "ok" for row in rows) else 0


def _contest(job: str, n: int, peers: Sequence[str], rounds: int) -> list[Row]:
    """Rows of one job; what a peer fails at is said in its row."""
    name, n, calls = ("saxpy", SMALL, CALLS) if job == "launch" else (job, n, 1)
    if job == "neighbors":
        args = kernel_neighbors.inputs(n)
        exact = kernel_neighbors.expected(*args)
        makers = [("geomkit", lambda _, args: kernel_neighbors.own(*args))]
        found = [(key, kernel_neighbors.PEERS[key]) for key in peers if key in kernel_neighbors.PEERS]
        makers += [(PEERS[key][0], lambda _, args, make=make: make(*args)) for key, make in found]
    else:
        args = inputs(n)[name]
        exact = expected(name, args)
        makers = [("geomkit", _own), *((PEERS[key][0], PEERS[key][3]) for key in peers)]
    tasks, rows = [], []
    for who, make in makers:
        is_own = who == "geomkit"
        threads = host.num_threads() if is_own else 1 if who in SINGLE else processors()
        row = Row(f"kernel {job}", "", 0, n, who, threads, rounds)
        try:
            # (Some say hello on standard output, which is for rows.)
            with redirect_stdout(sys.stderr):
                run, read = make(name, args)
                run()
            row.error = float(abs(np.asarray(read(), np.float64) - exact).max() / abs(exact).max())
            row.check = "ok" if row.error < CLOSE else "wrong values"
        except Exception as error:
            if is_own:
                raise
            # A peer may fail in its own way; the others go on.
            row.check = f"failed: {type(error).__name__}: {error}"
        else:
            tasks.append((row, Task(who, _repeated(run, calls), lambda r, k: np.empty(0), n * calls, row.threads)))
        rows.append(row)
    timings = race([task for _, task in tasks], rounds, rest=REST if peers else 0.0)
    for (row, _), timing in zip(tasks, timings, strict=True):
        row.seconds, row.cpu_seconds, row.setup_seconds = timing.wall / calls, timing.cpu / calls, 0.0
        row.rate = n / row.seconds
        row.ratio, row.cpu_ratio = timing.wall / timings[0].wall, timing.cpu / max(timings[0].cpu, 1e-9)
        row.ratio_with_setup = row.ratio
    return rows


def _starts(job: str, peers: Sequence[str]) -> list[Row]:
    """How long a new process takes from the definition of a kernel to the end of its first launch."""
    rows = []
    for key in ("geomkit", *peers):
        row = Row(f"kernel {job}", "", 0, SMALL, PEERS[key][0] if key in PEERS else key, 1, 1)
        try:
            row.seconds, row.check = start(key, warm=job == "warm start"), "ok"
            row.ratio, row.rate = row.seconds / (rows[0].seconds if rows else row.seconds), SMALL / row.seconds
            row.cpu_seconds, row.setup_seconds = row.seconds, 0.0
            row.cpu_ratio = row.ratio_with_setup = row.ratio
        except Exception as error:
            if key == "geomkit":
                raise
            row.check = f"failed: {type(error).__name__}: {error}"
        rows.append(row)
    return rows


def _repeated(run: Callable[[], Any], calls: int) -> Callable[[], None]:
    def all_of_them() -> None:
        for _ in range(calls):
            run()

    return all_of_them
