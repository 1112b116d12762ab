"""The main job on a mesh that ships: signed distance and its gradients, with a picture of each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import geomkit
from geomkit.errors import MeshError, message
from geomkit.files import replacing
from geomkit.mesh import Mesh

SLICE = 640  # samples along the longer side of the slice
POINTS = 2000  # of the gradient check
SINGLES = 24  # vertices of which each coordinate is checked by itself
STEPS = np.logspace(-9, -2, 22)  # of finite differences, as shares of the mesh's diagonal


def shipped(name: str) -> Path:
    """A mesh file that ships: inside the installed package, or in the folder `data` of a checkout."""
    package = Path(geomkit.__file__).resolve().parent
    for folder in (package / "data", package.parent / "data"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"the mesh {name} is missing from {package / '_data'}: run `pip install .`")


def run(folder: Path, path: Path | None) -> None:
    """Write the pictures into a folder, made if need be, and say what was done.

    Args:
        folder: where `slice.png` and `gradient.png` go.
        path: a mesh file; None is the one that ships.

    Raises:
        ValueError: the mesh has no faces.
    """
    path = shipped("knot.ply") if path is None else path
    mesh = geomkit.load_mesh(path, dtype=np.float64)
    if mesh.n_faces == 0:
        raise MeshError(message("demo", "mesh", "at least one face", "none"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{path.name}\n{mesh.report()}\n")

    begin = time.perf_counter()
    grid = slice_of(mesh)
    seconds = time.perf_counter() - begin
    save(slice_figure(grid), folder / "slice.png")
    print(f"signed distance at {grid['distance'].size} points of a slice, tree included: {seconds:.3f} s")
    print(f"  {folder / 'slice.png'}")

    check = gradient_check(mesh)
    save(gradient_figure(check), folder / "gradient.png")
    worst = {name: float(check[name].min()) for name in ("points", "vertices")}
    print(f"gradients of {POINTS} distances against central differences, smallest relative difference:")
    print(f"  to the points {worst['points']:.1e}, to the mesh's vertices {worst['vertices']:.1e}")
    print(f"  {folder / 'gradient.png'}")


def slice_of(mesh: Mesh) -> dict[str, Any]:
    """Signed distances on the plane across the mesh's shortest side, through its middle."""
    extent = mesh.bounds[1] - mesh.bounds[0]
    u, v = sorted(np.argsort(extent, kind="stable")[1:].tolist())
    half = 0.5 * extent + 0.15 * extent.max()
    step = 2 * max(half[u], half[v]) / (SLICE - 1)
    x, y = (mesh.center[k] + np.arange(-half[k], half[k] + 0.5 * step, step) for k in (u, v))
    points = np.tile(mesh.center, (len(x), len(y), 1))
    points[:, :, u], points[:, :, v] = x[:, None], y[None]
    distance = geomkit.signed_distance(mesh, points.reshape(-1, 3)).reshape(len(x), len(y))
    return {"x": x, "y": y, "distance": distance, "labels": ("xyz"[u], "xyz"[v])}


def slice_figure(grid: dict[str, Any]) -> Any:
    """The slice in two colours, with lines of equal distance and the surface in black."""
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
    from matplotlib.figure import Figure

    x, y, distance = grid["x"], grid["y"], grid["distance"].T
    colours = ["#0b2a4a", "#1f6f9f", "#a9d6e5", "#fffaf0", "#fcd9a0", "#ee8a3c", "#8f3b12"]
    high = max(float(distance.max()), 1e-9 * float(np.abs(distance).max()))
    low = min(float(distance.min()), -0.05 * high)
    aspect = (y[-1] - y[0]) / (x[-1] - x[0])
    figure = Figure(figsize=(8, 8 * aspect * 0.86 + 0.5), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(
        distance,
        origin="lower",
        extent=(x[0], x[-1], y[0], y[-1]),
        cmap=LinearSegmentedColormap.from_list("distance", colours),
        norm=TwoSlopeNorm(0.0, low, high),
        interpolation="bilinear",
    )
    for side in (low, high):
        levels = np.sort(np.linspace(0, side, 15)[1:-1])
        axes.contour(x, y, distance, levels=levels, colors="#00000044", linewidths=0.6, linestyles="-")
    axes.contour(x, y, distance, levels=[0.0], colors="black", linewidths=2.2)
    axes.set(xlabel=grid["labels"][0], ylabel=grid["labels"][1])
    axes.set_title("Signed distance on a slice; the surface is the black line")
    figure.colorbar(image, label="signed distance", shrink=0.9)
    return figure


def gradient_check(mesh: Mesh) -> dict[str, np.ndarray]:
    """The adjoint beside central differences, in float64, at points near the middles of faces.

    Returns:
        "points", "vertices": for each step of STEPS, the relative difference along a random direction of all inputs at
        once. "adjoint", "difference": single partial derivatives of a weighted sum of distances, at the best step.
    """
    rng = np.random.default_rng(0)
    face = rng.choice(mesh.n_faces, POINTS, p=np.asarray(mesh.face_areas) / mesh.area)
    corners = mesh.vertices_array[mesh.faces_array[face]]
    share = rng.dirichlet((8, 8, 8), POINTS)
    offset = 0.01 * mesh.diagonal * rng.uniform(0.3, 1.0, (POINTS, 1)) * rng.choice((-1, 1), (POINTS, 1))
    points = (share[:, :, None] * corners).sum(axis=1) + offset * np.asarray(mesh.face_normals)[face]
    weight = rng.uniform(0.5, 1.5, POINTS)
    sign = "unsigned"  # its gradients are the same up to sign, and no table is built again for each moved mesh

    def loss(vertices: np.ndarray, points: np.ndarray) -> float:
        return float(weight @ geomkit.signed_distance(mesh.with_vertices(vertices), points, sign=sign))

    gradient = geomkit.signed_distance.adjoint(mesh, points, adj_distance=weight, sign=sign)
    vertices, result = mesh.vertices_array, {}
    for name, inputs, claimed in (("points", points, gradient.points), ("vertices", vertices, gradient.vertices)):
        along = rng.standard_normal(inputs.shape)
        along *= np.sign(along * claimed) / np.abs(along).max()  # so that nothing cancels
        slope = float((claimed * along).sum())
        differences = []
        for h in STEPS * mesh.diagonal:
            moved = [
                loss(vertices, points + t * along) if name == "points" else loss(vertices + t * along, points)
                for t in (h, -h)
            ]
            differences.append(abs((moved[0] - moved[1]) / (2 * h) - slope) / abs(slope))
        result[name] = np.array(differences)
    h = 1e-6 * mesh.diagonal
    chosen = rng.choice(np.flatnonzero(np.abs(gradient.vertices).sum(axis=1) > 0), SINGLES)
    single = []
    for vertex in chosen:
        for axis in range(3):
            step = np.zeros_like(vertices)
            step[vertex, axis] = h
            single.append((loss(vertices + step, points) - loss(vertices - step, points)) / (2 * h))
    return result | {"adjoint": gradient.vertices[chosen].ravel(), "difference": np.array(single)}


def gradient_figure(check: dict[str, np.ndarray]) -> Any:
    """Partial derivatives against differences, and how the difference falls with the step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2)
    limit = 1.1 * float(np.abs(check["adjoint"]).max())
    left.plot([-limit, limit], [-limit, limit], color="#999999", linewidth=1, zorder=0)
    left.plot(check["difference"], check["adjoint"], "o", color="#ee8a3c", markeredgecolor="#8f3b12", markersize=5)
    left.set(xlabel="central difference", ylabel="adjoint", xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    left.set_title(f"{len(check['adjoint'])} vertex coordinates")
    right.loglog(STEPS, np.maximum(check["points"], 1e-16), "o-", color="#1f6f9f", label="to the points")
    right.loglog(STEPS, np.maximum(check["vertices"], 1e-16), "s-", color="#ee8a3c", label="to the vertices")
    right.set(xlabel="step / diagonal of the mesh", ylabel="relative difference")
    right.set_title("Adjoint and central difference, all inputs at once")
    right.grid(color="#dddddd")
    right.legend()
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with replacing(path) as file:
        figure.savefig(file, format="png")
