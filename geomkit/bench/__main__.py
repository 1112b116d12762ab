"""`python -m geomkit.bench`: geomkit beside its peers, in one process, in turns, one JSON line a row and a table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from geomkit.bench import isosurface, kernels, render
from geomkit.bench.build import build
from geomkit.bench.contest import Arena
from geomkit.bench.distance import distance
from geomkit.bench.peer import Peer, processors
from geomkit.bench.peers import PEERS, present
from geomkit.bench.rays import rays
from geomkit.bench.row import Row, printing, table
from geomkit.bench.winding import winding
from geomkit.mesh.io import load_mesh
from geomkit.mesh.mesh import Mesh
from geomkit.runtime import host

__all__ = ["main"]


class Job(NamedTuple):
    """A job.

    Attributes:
        run: does it.
        rounds: number of runs of each contender: the shorter a run, the more of them.
        asks: the methods of peers that it asks.
    """

    run: Callable[[Arena], None]
    rounds: int
    asks: tuple[str, ...]


JOBS = {
    "distance": Job(distance, 3, ("distance", "signed_distance")),
    "winding": Job(winding, 5, ("winding_number",)),
    "build": Job(build, 15, ("build",)),
    "rays": Job(rays, 5, ("closest_hit", "any_hit", "count_hits", "all_hits")),
}

FAILED = 1  # 2 is argparse's, for a wrong command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark as the command line says.

    Rows go to standard output, everything else to standard error.

    Args:
        arguments: as on the command line; None takes them from there.

    Returns:
        the exit status: 1 if some of geomkit's values are wrong, else 0. Rows say which peers' are.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["isosurface"]:
        return isosurface.main(arguments[1:])
    if arguments[:1] == ["render"]:
        return render.main(arguments[1:])
    if arguments[:1] == ["kernels"]:
        return kernels.main(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        _use_processors(options.threads)
        meshes = [_mesh(path, options.subdivide) for path in options.meshes]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    job = JOBS[options.job]
    kinds = [kind for kind in _installed(options.peers) if kind.answers(job.asks)]
    rows: list[Row] = []
    with printing(options.json) as report:
        for name, mesh in meshes:
            arena = Arena(
                name, mesh, [kind(mesh) for kind in kinds], options.points, options.repeat or job.rounds,
                options.checked, np.random.default_rng(options.seed), report, options.rays,
            )  # fmt: skip
            job.run(arena)
            rows += arena.rows
    table(rows)
    return FAILED if any(row.own and row.check != "ok" for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m geomkit.bench",
        description="Measure geomkit beside its peers: in one process, in turns, the best of several runs, "
        "the values checked first.",
        epilog="isosurface and kernels work on data of their own, render has options of its own: see "
        "`isosurface --help`, `kernels --help` and `render --help`. "
        "Exit status: 1 if some of geomkit's values are wrong, else 0; rows say which peers' are.",
    )
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("meshes", metavar="MESH", nargs="+", type=Path, help="an OBJ, PLY, STL, OFF or GLB file")
    parser.add_argument("--points", metavar="N", type=_positive, default=200_000, help="query points (default 200000)")
    parser.add_argument(
        "--rays",
        metavar="N",
        type=_positive,
        default=1 << 20,
        help="rays of the job rays; its picture has the root of that as its side (default 1048576)",
    )
    parser.add_argument(
        "--subdivide",
        metavar="N",
        type=_natural,
        default=0,
        help="divide each triangle into four at the middles of its edges, so many times (default 0)",
    )
    parser.add_argument(
        "--repeat", metavar="N", type=_positive, help=f"runs of each, the best counts (default {_defaults()})"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows to this file, too")
    parser.add_argument(
        "--peers",
        metavar="PEER,...",
        type=_peers,
        default=list(PEERS.values()),
        help=f"some of {','.join(PEERS)}, or none (default: all that are installed)",
    )
    parser.add_argument(
        "--threads", metavar="N", type=_positive, help="processors for geomkit and peers (default: all)"
    )
    parser.add_argument(
        "--checked",
        metavar="N",
        type=_positive,
        default=1000,
        help="points or rays whose values are checked (default 1000)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the points and rays (default 0)")
    return parser


def _defaults() -> str:
    return ", ".join(f"{job.rounds} for {name}" for name, job in JOBS.items())


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected at least 0, got {value}")
    return value


def _peers(text: str) -> list[type[Peer]]:
    names = [] if text == "none" else text.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected some of {','.join(PEERS)}, or none; got {','.join(unknown)}")
    return [PEERS[name] for name in names]


def _use_processors(n: int | None) -> None:
    """Keep the whole process, peers included, on so many processors; they size their pools by that when imported."""
    if n is None:
        host.set_num_threads(min(host.num_threads(), processors()))
        return
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError("--threads: this system cannot keep a process on some of its processors")
    allowed = sorted(os.sched_getaffinity(0))
    if n > len(allowed):
        raise ValueError(f"--threads: expected at most {len(allowed)}, the processors there are, got {n}")
    os.sched_setaffinity(0, allowed[:n])
    host.set_num_threads(n)


def _mesh(path: Path, subdivide: int) -> tuple[str, Mesh]:
    """The name for rows, and the mesh."""
    mesh, name = load_mesh(path), path.name
    if not mesh.area > 0:
        raise ValueError(f"{path}: expected faces with some area, got {mesh!r}")
    for _ in range(subdivide):
        mesh = _subdivided(mesh)
    return (f"{name} x {4**subdivide}" if subdivide else name), mesh


def _subdivided(mesh: Mesh) -> Mesh:
    """The mesh with each triangle divided into four at the middles of its edges."""
    vertices, (a, b, c) = mesh.vertices_array, mesh.faces_array.T
    ends = np.sort(np.stack([np.concatenate([a, b, c]), np.concatenate([b, c, a])]).astype(np.int64), axis=0)
    edges, edge = np.unique(ends[0] * len(vertices) + ends[1], return_inverse=True)
    middles = vertices[np.stack(np.divmod(edges, len(vertices)))].astype(np.float64).mean(axis=0)
    ab, bc, ca = len(vertices) + edge.reshape(3, -1)
    corners = [a, ab, ca, b, bc, ab, c, ca, bc, ab, bc, ca]
    return Mesh(
        np.concatenate([vertices, middles.astype(vertices.dtype)]),
        np.stack(corners, axis=1).reshape(-1, 3).astype(np.int32),
    )


def _installed(kinds: Sequence[type[Peer]]) -> list[type[Peer]]:
    """The peers that are there; says how to get the others."""
    found = []
    for kind in kinds:
        if present(kind):
            found.append(kind)
        else:
            print(f"{kind.name}: skipped, not installed: pip install {kind.packages}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
