"""`python -m geomkit.bench`: geomkit beside its peers, in one process, in turns, one JSON line a row and a table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from geomkit.bench import isosurface
from geomkit.bench.build import build
from geomkit.bench.contest import Arena
from geomkit.bench.distance import distance
from geomkit.bench.peers import PEERS, Peer, present, processors
from geomkit.bench.row import Row, table
from geomkit.bench.winding import winding
from geomkit.mesh.io import load_mesh
from geomkit.mesh.mesh import Mesh
from geomkit.runtime import host

__all__ = ["main"]

# What runs each job, and the number of runs of each contender: the shorter a run, the more of them.
JOBS: dict[str, tuple[Callable[[Arena], None], int]] = {
    "distance": (distance, 3),
    "winding": (winding, 5),
    "build": (build, 15),
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
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        _use_processors(options.threads)
        meshes = [(path.name, _mesh(path)) for path in options.meshes]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    kinds = _installed(options.peers)
    rows: list[Row] = []
    run, rounds = JOBS[options.job]
    with ExitStack() as stack:
        outputs = [sys.stdout]
        if options.json:
            outputs.append(stack.enter_context(open(options.json, "w", encoding="utf-8")))

        def report(new: Sequence[Row]) -> None:
            for row in new:
                for output in outputs:
                    print(row.json(), file=output, flush=True)

        for name, mesh in meshes:
            arena = Arena(
                name, mesh, [kind(mesh) for kind in kinds], options.points, options.repeat or rounds,
                min(options.checked, options.points), np.random.default_rng(options.seed), report,
            )  # fmt: skip
            run(arena)
            rows += arena.rows
    table(rows)
    return FAILED if any(row.own and row.check != "ok" for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m geomkit.bench",
        description="Measure geomkit beside its peers: in one process, in turns, the best of several runs, "
        "the values checked first.",
        epilog="isosurface works on fields of its own: see `isosurface --help`. "
        "Exit status: 1 if some of geomkit's values are wrong, else 0; rows say which peers' are.",
    )
    parser.add_argument("job", choices=list(JOBS))
    parser.add_argument("meshes", metavar="MESH", nargs="+", type=Path, help="an OBJ, PLY, STL, OFF or GLB file")
    parser.add_argument("--points", metavar="N", type=_positive, default=200_000, help="query points (default 200000)")
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
        "--checked", metavar="N", type=_positive, default=1000, help="points whose values are checked (default 1000)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the points (default 0)")
    return parser


def _defaults() -> str:
    return ", ".join(f"{rounds} for {job}" for job, (_, rounds) in JOBS.items())


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
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


def _mesh(path: Path) -> Mesh:
    mesh = load_mesh(path)
    if not mesh.area > 0:
        raise ValueError(f"{path}: expected faces with some area, got {mesh!r}")
    return mesh


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
