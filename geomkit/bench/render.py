"""Job `render`: images of a mesh under a constant and a point light, and their gradients; an iteration of fitting."""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import geomkit as gk
from geomkit.bench.peer import installed, processors
from geomkit.bench.race import REST, Task, race
from geomkit.bench.row import Row, printing, table
from geomkit.runtime import host

__all__ = ["PEERS", "main"]

CLOSE = 1e-2  # of the mean of an image: what Mitsuba draws is drawn otherwise
SAME = 1e-3  # of a sum of gradients, in float32
VARIANTS = ("llvm_ad_rgb", "scalar_rgb")


@dataclass
class Setting:
    """What is rendered.

    Attributes:
        mesh: of float32.
        camera: frames the mesh, width = height.
        scene: the mesh with smooth normals under two lights.
        samples: along each side of a pixel.
    """

    mesh: gk.Mesh
    camera: gk.Camera
    scene: gk.Scene
    samples: int

    @property
    def cotangent(self) -> np.ndarray:
        return np.ones((self.camera.height, self.camera.width, 3), np.float32)


def setting(mesh: gk.Mesh, size: int, samples: int) -> Setting:
    """The mesh under a constant light and a point light."""
    reach = mesh.diagonal
    lights = {
        "sky": gk.ConstantLight(),
        "lamp": gk.PointLight(tuple(mesh.center + reach), (3 * reach * reach,) * 3),
    }
    scene = gk.Scene({"mesh": gk.Object(mesh, smooth=True)}, lights)
    return Setting(mesh, gk.Camera.framing(mesh, width=size, height=size), scene, samples)


# ---- peers: what runs them, by job


def _mitsuba(s: Setting) -> tuple[str, int, dict[str, tuple[Callable[[], Any], Callable[[Any], np.ndarray]]]]:
    """Mitsuba's name, its threads, and for each job what runs it and what reads the image from the result."""
    import mitsuba as mi

    variant = next(name for name in VARIANTS if name in mi.variants() and _works(name))
    mi.set_variant(variant)
    camera, spp = s.camera.to_mitsuba(), s.samples**2
    sensor = {
        "type": camera.type, "fov": camera.fov, "fov_axis": camera.fov_axis,
        "to_world": mi.ScalarTransform4f(camera.to_world),
        "film": {"type": "hdrfilm", "width": s.camera.width, "height": s.camera.height, "rfilter": {"type": "box"}},
        "sampler": {"type": "independent", "sample_count": spp},
    }  # fmt: skip
    mesh = mi.Mesh("mesh", s.mesh.n_vertices, s.mesh.n_faces, has_vertex_normals=True)
    given = mi.traverse(mesh)
    given["vertex_positions"] = np.asarray(s.mesh.vertices).ravel()
    given["vertex_normals"] = np.asarray(s.mesh.vertex_normals).ravel()
    given["faces"] = np.asarray(s.mesh.faces).ravel()
    given.update()
    diffuse = {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": 0.5}}}
    mesh.set_bsdf(mi.load_dict(diffuse))
    lamp: Any = s.scene.lights["lamp"]
    position, intensity = [float(x) for x in lamp.position], float(lamp.intensity[0])
    scene = mi.load_dict(
        {
            "type": "scene", "integrator": {"type": "direct"}, "sensor": sensor, "mesh": mesh,
            "sky": {"type": "constant"},
            "lamp": {"type": "point", "position": position, "intensity": {"type": "rgb", "value": intensity}},
        }
    )  # fmt: skip
    jobs: dict[str, tuple] = {"forward": (lambda: np.array(mi.render(scene, spp=spp)), lambda image: image)}
    if variant != "scalar_rgb":
        import drjit as dr

        parameters = mi.traverse(scene)
        path = next(key for key in parameters.keys() if key.endswith("vertex_positions"))  # noqa: SIM118
        adjoint = mi.load_dict({"type": "prb", "max_depth": 2})

        def interior() -> Any:
            dr.enable_grad(parameters[path])
            image = mi.render(scene, parameters, integrator=adjoint, spp=spp)
            dr.backward(dr.sum(image, axis=None))
            gradient = np.array(dr.grad(parameters[path]))
            return gradient, image

        jobs["interior gradients"] = (interior, lambda result: np.array(result[1]))
    return f"Mitsuba 3 {variant}", processors(), jobs


def _works(variant: str) -> bool:
    """Whether a variant renders: asked in a process of its own, as some LLVM aborts the one that it is in."""
    program = (
        f"import mitsuba as mi, numpy; mi.set_variant('{variant}'); "
        "numpy.array(mi.render(mi.load_dict(mi.cornell_box()), spp=1))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    if done.returncode:
        print(f"Mitsuba 3: {variant} does not run here (DRJIT_LIBLLVM_PATH names another LLVM)", file=sys.stderr)
    return done.returncode == 0


PEERS: dict[str, tuple[str, str, str, Callable]] = {"mitsuba": ("Mitsuba 3", "mitsuba", "mitsuba", _mitsuba)}


def main(arguments: Sequence[str]) -> int:
    """Run the job; rows go to standard output, the table to standard error.

    Args:
        arguments: what follows `render` on the command line.

    Returns:
        the exit status: 1 if some of geomkit's images or gradients are wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m geomkit.bench render", description=__doc__)
    parser.add_argument("meshes", metavar="MESH", nargs="+", type=Path, help="an OBJ, PLY, STL, OFF or GLB file")
    parser.add_argument("--size", metavar="N", type=int, default=256, help="pixels a side (default 256)")
    parser.add_argument("--samples", metavar="N", type=int, default=4, help="samples a pixel's side (default 4)")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {','.join(PEERS)}, or none")
    parser.add_argument("--repeat", metavar="N", type=int, default=5, help="runs of each, the best counts (default 5)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows to this file, too")
    options = parser.parse_args(arguments)
    peers = [] if options.peers == "none" else options.peers.split(",")
    if set(peers) - set(PEERS):
        parser.error(f"--peers: expected some of {','.join(PEERS)}, got {options.peers}")
    if min(options.size, options.samples, options.repeat) < 1:
        parser.error("expected at least one pixel, one sample and one run")
    try:
        meshes = [(path.name, gk.load_mesh(path)) for path in options.meshes]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    peers = installed(PEERS, peers)
    host.set_num_threads(min(host.num_threads(), processors()))
    rows: list[Row] = []
    with printing(options.json) as report:
        for name, mesh in meshes:
            for row in _contests(name, setting(mesh, options.size, options.samples), peers, options.repeat):
                rows.append(row)
                report([row])
    table(rows)
    return 1 if any(row.own and row.check != "ok" for row in rows) else 0


def _contests(name: str, s: Setting, peers: Sequence[str], rounds: int) -> list[Row]:
    """Rows of all jobs on one mesh; what a peer fails at is said in its rows."""
    image = gk.render(s.scene, s.camera, samples=s.samples).color
    own = _jobs(s)
    contenders: dict[str, list[tuple[str, int, Callable[[], Any], str, float]]] = {}
    for job, (run, check) in own.items():
        contenders[job] = [("geomkit", host.num_threads(), run, *check(run(), image))]
    for key in peers:
        try:
            who, threads, jobs = PEERS[key][3](s)
            for job, (run, read) in jobs.items():
                error = abs(float(read(run())[..., :3].mean()) / float(image.mean()) - 1)
                contenders[job].append((who, threads, run, "ok" if error < CLOSE else "another image", error))
        except Exception as error:
            # A peer may fail in its own way; the others go on.
            text = f"failed: {type(error).__name__}: {error}"
            contenders["forward"].append((PEERS[key][0], processors(), lambda: None, text, np.inf))
    rows = []
    for job, entered in contenders.items():
        samples = 1 if job == "mesh iteration" else s.samples**2
        rays = samples * s.camera.width * s.camera.height
        tasks = [Task(who, run, lambda r, k: np.empty(0), rays, threads) for who, threads, run, _, _ in entered]
        timings = race(tasks, rounds, rest=REST if peers else 0.0)
        for task, timing, (*_, check, error) in zip(tasks, timings, entered, strict=True):
            row = Row(f"render {job}", name, s.mesh.n_faces, rays, task.who, task.threads, rounds, check=check)
            row.error = error
            if not check.startswith("failed"):
                row.seconds, row.cpu_seconds, row.setup_seconds = timing.wall, timing.cpu, 0.0
                row.rate = rays / timing.wall
                row.ratio, row.cpu_ratio = timing.wall / timings[0].wall, timing.cpu / timings[0].cpu
                row.ratio_with_setup = row.ratio
            rows.append(row)
    return rows


def _jobs(s: Setting) -> dict[str, tuple[Callable[[], Any], Callable[[Any, np.ndarray], tuple[str, float]]]]:
    """Geomkit's runs by job, and what checks their results."""

    def forward() -> np.ndarray:
        return gk.render(s.scene, s.camera, samples=s.samples).color

    def gradients(boundary: str) -> Callable[[], Any]:
        """An image and its gradients, as an iteration needs both."""
        options: dict[str, Any] = dict(samples=s.samples, boundary=boundary)
        return lambda: (forward(), gk.render.adjoint(s.scene, s.camera, **options, adj_color=s.cotangent))

    latest, turn = [s.mesh], itertools.count()
    colors = np.random.default_rng(0).random((s.mesh.n_vertices, 3)).astype(np.float32)
    steps = [np.asarray(s.mesh.vertices) * np.float32(1 + 1e-5 * k) for k in range(2)]

    def iteration() -> Any:
        # New vertices each time, their tree refitted.
        latest[0] = latest[0].with_vertices(steps[next(turn) % 2])
        scene = gk.Scene({"mesh": gk.Object(latest[0], gk.Material(albedo=colors))})
        image = gk.render(scene, s.camera, channels="albedo", samples=1).albedo
        options: dict[str, Any] = dict(channels="albedo", samples=1, wanted="mesh.vertices")
        return image, gk.render.adjoint(scene, s.camera, **options, adj_albedo=s.cotangent)

    power = float(np.mean(s.scene["lamp.intensity"]))

    def is_linear(result: Any, image: np.ndarray) -> tuple[str, float]:
        """An image is the sum of what its lights give: so is the sum of their gradients times the lights."""
        g = result[1]
        found = float(np.sum(g["sky.radiance"])) + power * float(np.sum(g["lamp.intensity"]))
        error = abs(found / float(image.sum(dtype=np.float64)) - 1)
        finite = np.isfinite(g["mesh.vertices"]).all()
        return ("ok" if finite and error < SAME else "wrong gradient"), error

    def is_finite(result: Any, image: np.ndarray) -> tuple[str, float]:
        found = result[1]["mesh.vertices"]
        return ("ok" if np.isfinite(found).all() and abs(found).max() > 0 else "wrong gradient"), 0.0

    return {
        "forward": (forward, _is_image),
        "interior gradients": (gradients("none"), is_linear),
        "all gradients": (gradients("integral"), is_linear),
        "mesh iteration": (iteration, is_finite),
    }


def _is_image(result: np.ndarray, image: np.ndarray) -> tuple[str, float]:
    return ("ok" if np.array_equal(result, image) and image.min() >= 0 else "another image"), 0.0
