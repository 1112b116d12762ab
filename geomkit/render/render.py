"""Images of a scene: forward and adjoint."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from geomkit.arrays import as_array, to_host
from geomkit.errors import message
from geomkit.render.antialias import Antialias
from geomkit.render.camera import Camera
from geomkit.render.film import Film
from geomkit.render.first_hits import FirstHits, View
from geomkit.render.pixel_rays import PixelWindow
from geomkit.render.plain_channels import is_plain, plain_adjoint, plain_channels
from geomkit.render.radiance import Radiance
from geomkit.render.rendering import CAMERA, CHANNELS, RenderGradients, Rendering
from geomkit.render.scene import Scene
from geomkit.render.scene_function import SceneFunction, is_batch, scene_of, stacked
from geomkit.render.shadow import ShadowSamples
from geomkit.render.silhouette import edge_samples
from geomkit.render.tables import SceneTables, add
from geomkit.runtime import host

__all__ = ["CHANNELS", "RenderGradients", "Rendering", "render"]

BOUNDARIES = ("integral", "antialias", "none")
TILE = 1 << 17  # rays at a time: what is known of them, some hundred bytes each, does not grow with the image


class _Query:
    def __init__(
        self,
        scene: Any,
        camera: Any,
        channels: Any,
        samples: Any,
        depth: Any,
        boundary: str,
        light_points: Any,
        seed: Any,
        filter: Any,
        rows: Any,
        columns: Any,
    ):
        op = "render"
        if not isinstance(camera, Camera):
            raise TypeError(message(op, "camera", "a Camera", type(camera).__name__))
        host.keep_freed_memory()
        scene = scene_of(scene)
        several: Any = channels if isinstance(channels, Iterable) and not isinstance(channels, str) else (channels,)
        self.channels: tuple[Any, ...] = tuple(several)
        if not self.channels or set(self.channels) - set(CHANNELS) or len(set(self.channels)) < len(self.channels):
            raise ValueError(message(op, "channels", f"some of {', '.join(CHANNELS)}, once each", repr(channels)))
        if boundary not in BOUNDARIES:
            raise ValueError(message(op, "boundary", "'integral', 'antialias' or 'none'", repr(boundary)))
        self.samples, self.depth = _count(op, "samples", samples, 1), _count(op, "depth", depth, 0)
        self.light_points, self.seed = _count(op, "light_points", light_points, 1), _count(op, "seed", seed, 0)
        self.boundary, self.camera, self.scene = boundary, camera, scene
        plain = self.samples == 1 and filter == "box" and rows is None and columns is None
        if boundary == "antialias" and not plain:
            expected = "one sample a pixel, a box filter and the whole image, as boundary is 'antialias'"
            got = f"{samples}, {filter!r}, {rows} and {columns}"
            raise ValueError(message(op, "samples, filter, rows, columns", expected, got))
        self.tables = SceneTables(scene)
        self.dtype = self.tables.dtype
        focal = abs(float(np.asarray(to_host(camera.K))[0, 0])) * self.samples
        self.tables.slope, self.tables.width = (0.0, 1 / focal) if camera.model == "orthographic" else (1 / focal, 0.0)
        self.tables.has_lens = camera.distortion is not None
        self.bounces = self.depth if "color" in self.channels else 0
        size = camera.width, camera.height
        self.film = Film(op, *size, rows=rows, columns=columns, filter=filter, samples=self.samples)
        self.view = View(self.tables.mesh, camera, self.seed)
        self.stops = np.cumsum([0, *(CHANNELS[name] for name in self.channels)])

    def tiles(self) -> Iterator[PixelWindow]:
        """Parts of the film."""
        yield from self.film.tiles(TILE, self.dtype, self.tables.device)

    def seen_through(self, window: PixelWindow, *, again: bool = False) -> Features:
        """What the rays of a window see; `again` where they have been asked before."""
        first = self.view.first_hits(window, again=again)
        rays = first.directions, first.stream, first.index
        return Features(self, Radiance(self.tables, None, *rays, self.bounces, first, again))

    def seen_by(self, first: FirstHits) -> Any:
        """(N, C) what rays see of which the first hits are known."""
        if "color" not in self.channels:
            return plain_channels(self.tables, self.channels, first)
        rays = first.directions, first.stream, first.index
        return Features(self, Radiance(self.tables, None, *rays, self.bounces, first)).value


class Features:
    """The channels along N rays.

    Attributes:
        face: (N,) what is hit first.
    """

    def __init__(self, q: _Query, radiance: Radiance):
        self.q, self.radiance = q, radiance
        self.face = radiance.hits.face

    @property
    def value(self) -> Any:
        """(N, C), the channels one after the other; all but color are 0 where nothing is hit."""
        xp, hits, first = self.q.tables.xp, self.radiance.hits, self.radiance.first
        hit = (hits.face >= 0)[:, None]
        parts = []
        for name in self.q.channels:
            if name == "color":
                parts.append(self.radiance.value)
            elif name == "mask":
                parts.append(hit.astype(self.q.dtype))
            elif name == "depth":
                parts.append(xp.where(hit, hits.t[:, None], 0))
            elif name == "position":
                parts.append(xp.where(hit, hits.position, 0))
            elif name == "normal":
                parts.append(hits.normal)
            else:
                albedo = xp.zeros((len(hit), 3), self.q.dtype)
                albedo[first.at] = first.material[:, :3]
                parts.append(albedo)
        return xp.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    def adjoint(self, adj: Any, faces: dict[str, Any]) -> tuple[dict[str, Any], Any, Any]:
        """Gradients for the cotangent (N, C): as `Radiance.adjoint`; those of faces add up."""
        q = self.q
        parts = {name: adj[:, a:b] for name, a, b in zip(q.channels, q.stops, q.stops[1:], strict=False)}
        color = parts.get("color")
        if color is None:
            color = q.tables.xp.zeros((len(adj), 3), q.dtype)
        return self.radiance.adjoint(
            q.tables.xp.ascontiguousarray(color), adj_t=parts.get("depth"), adj_position=parts.get("position"),
            adj_normal=parts.get("normal"), adj_albedo=parts.get("albedo"), faces=faces,
        )  # fmt: skip


def _declared(forward: Callable) -> SceneFunction:
    outputs = {name: f"real H W {count}" for name, count in CHANNELS.items()}
    return SceneFunction(forward, ("scene", "camera"), outputs, {})


@_declared
def render(
    scene: Scene,
    camera: Camera,
    *,
    channels: Any = ("color",),
    samples: int = 4,
    depth: int = 1,
    boundary: str = "integral",
    light_points: int = 64,
    seed: int = 0,
    filter: str = "box",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
) -> Rendering:
    """An image of a scene, and other channels of what the camera sees.

    Args:
        scene: a Scene, or a mesh, which is then lit from everywhere alike.
        camera: a Camera; or a list of them, of one size or of several.
        channels: what to compute: "color"; "mask", the share of a pixel that objects cover; "depth" along the camera's
            z axis, "position", "normal" and "albedo", which are 0 where there is nothing: divide by the mask for the
            mean of what is there.
        samples: along each side of a pixel, samples^2 in all.
        depth: how many surfaces light may meet before it reaches the camera: 0 shows what emits, 1 is direct light,
            more is light between surfaces.
        boundary: what gradients know of visibility: "integral" has silhouettes, edges and shadows of direct light move;
            "none" takes them as fixed. "antialias" changes the image as well, for features with one sample a pixel:
            where an outline passes between the centres of two neighbouring pixels, it shares out the pixel it is in,
            and the gradient is that of this very image. It knows no shadows, and nothing that no centre shows; where
            two outlines meet in a pixel, values may leave the range of what they mix, by up to half their difference
            for each. It wants samples=1, a box filter and the whole image.
        light_points: points of an area light, or directions of a constant one, whose shadows move in gradients.
        seed: of the random numbers: not negative. The same seed gives the same image on every device.
        filter: what a pixel is the mean of: "box", its square; "triangle", falling off to the neighbours' centres;
            "gaussian", of standard deviation 0.5 pixels, up to two from the centre. The wider ones need samples beyond
            the image's border.
        rows, columns: (first, last) of a part of the image, last excluded; None is all. It is that part of the whole.

    Returns:
        A record with an array (H, W, C) for each channel, of the scene's precision and library. Of a list of B cameras
        of one size, arrays (B, H, W, C); of several sizes, a list of records.

    Gradients:
        scene and camera, through all channels: vertices, uv, albedo, metallic, roughness, emission, and what lights
        have; world_to_camera, K and distortion. What is drawn, such as directions, stays what it is. Silhouettes and
        shadows of direct light move with boundary="integral"; what is seen in mirrors, and shadows of light that other
        surfaces reflect, do not. Where surfaces cut through each other, their line of intersection does not move.

    Raises:
        ValueError, TypeError: an argument that is none of these; a scene without objects.

    Cost: a ray for each sample, and one for each light at each surface. Gradients cost about as much again, and two
        rays for each pixel that an edge passes.
    Source: Li et al. (2018) for the integral along edges; Burley (2020) for the samples.

    Example:
        >>> import geomkit as gk
        >>> ball = gk.shapes.icosphere(3)
        >>> scene = gk.Scene(ball, gk.ConstantLight())
        >>> image = gk.render(scene, gk.Camera.framing(ball, width=32, height=32), channels=("color", "mask"))
        >>> image, round(float(image.color[16, 16, 0]), 3)
        (Rendering(color (32, 32, 3), mask (32, 32, 1)), 0.5)
    """
    given = dict(locals())
    if is_batch(camera):
        options = {name: value for name, value in given.items() if name not in ("scene", "camera")}
        views: Any = camera
        return stacked([render.forward(scene, one, **options) for one in views])
    q = _Query(scene, camera, channels, samples, depth, boundary, light_points, seed, filter, rows, columns)
    xp = q.tables.xp
    if q.boundary == "antialias":
        outlines, aliased = _outlines(q)
        out = outlines.image(aliased)
    else:
        out = xp.zeros((q.film.rows, q.film.columns, int(q.stops[-1])), q.dtype)
        for window in q.tiles():
            q.film.add(xp, out, window, q.seen_by(q.view.first_hits(window, again=False)))
    return Rendering(**{name: out[..., a:b] for name, a, b in zip(q.channels, q.stops, q.stops[1:], strict=False)})


@render.define_adjoint
def render_adjoint(
    scene: Scene,
    camera: Camera,
    *,
    channels: Any = ("color",),
    samples: int = 4,
    depth: int = 1,
    boundary: str = "integral",
    light_points: int = 64,
    seed: int = 0,
    filter: str = "box",
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    adj_color: Any = None,
    adj_mask: Any = None,
    adj_depth: Any = None,
    adj_position: Any = None,
    adj_normal: Any = None,
    adj_albedo: Any = None,
    wanted: Any = None,
) -> RenderGradients:
    """Gradients of `render`: cotangents of channels to everything in the scene and to the camera.

    Args:
        scene, camera, channels, samples, depth, boundary, light_points, seed, filter, rows, columns: as given to
            `render`.
        adj_color, adj_mask, adj_depth, adj_position, adj_normal, adj_albedo: (H, W, C) cotangents; None is zero. Of a
            list of cameras, (B, H, W, C) or a list.
        wanted: paths such as "bunny.vertices" of the gradients that matter; None is all. Others may be left out. Of a
            list of cameras, theirs have a number: "camera.0.K".

    Returns:
        A record `.scene`, gradients by path, and `.camera`, by field; record["ball.vertices"] and
        record["camera.K"] read them. Of a list of cameras, `.scene` is of all images together and `.camera` a list:
        record["camera.0.K"].

    Raises:
        ValueError, TypeError: as `render`; a cotangent of the wrong shape, or of a channel that was not asked for.

    Cost: as `render`, and once or twice as much again. The same bits whatever the number of threads.

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> ball = gk.shapes.icosphere(3)
        >>> scene, camera = gk.Scene(ball, gk.ConstantLight()), gk.Camera.framing(ball, width=32, height=32)
        >>> g = gk.render.adjoint(scene, camera, adj_color=np.ones((32, 32, 3)))
        >>> g["object.vertices"].shape, g["camera.K"].shape
        ((642, 3), (3, 3))
    """
    given = locals()
    if is_batch(camera):
        return _summed(scene, camera, given)
    q = _Query(scene, camera, channels, samples, depth, boundary, light_points, seed, filter, rows, columns)
    adj = _cotangents(q, {name: given[f"adj_{name}"] for name in CHANNELS})
    tables = q.tables
    tables.wanted = None if wanted is None else _paths(scene, camera, wanted)
    out: dict[str, Any] = {}
    cameras: dict[str, Any] = {}
    faces: dict[str, Any] = {}
    for name in CAMERA:
        if getattr(camera, name) is not None:
            out[f"camera.{name}"] = np.zeros(np.shape(getattr(camera, name)))
    if q.boundary == "antialias":
        outlines, aliased = _outlines(q)
        adj = outlines.adjoint(aliased, adj, out)
    # Within an object the mask does not change.
    for window in q.tiles() if q.channels != ("mask",) else ():
        adj_samples = q.film.to_samples(tables.xp, adj, window)
        if is_plain(tables, q.channels):
            first = q.view.first_hits(window, again=True)
            for path, value in plain_adjoint(tables, q.channels, first, adj_samples, faces).items():
                add(out, path, value)
            continue
        seen = q.seen_through(window, again=True)
        found, *adj_rays = seen.adjoint(adj_samples, faces)
        for path, value in found.items():
            add(out, path, value)
        if tables.wanted is None or any(path.startswith("camera.") for path in tables.wanted):
            for name, value in q.view.adjoint(window, seen.radiance.moved, *adj_rays).items():
                add(out, f"camera.{name}", value)
    for name, total in faces.items():
        add(out, name, total.at_vertices().astype(np.float64))
    if q.boundary == "integral":
        _add_boundaries(q, adj, out)
    for path in list(out):
        if path.startswith("camera."):
            cameras[path.removeprefix("camera.")] = out.pop(path)
    return RenderGradients(_shaped(tables, _by_object(tables, out)), cameras)


def _outlines(q: _Query) -> tuple[Antialias, Any]:
    """The image of a sample a pixel, and the outlines between its pixels."""
    xp = q.tables.xp
    aliased = xp.zeros((q.film.rows, q.film.columns, int(q.stops[-1])), q.dtype)
    faces, depths = [], []
    for window in q.tiles():
        seen = q.seen_through(window)
        q.film.add(xp, aliased, window, seen.value)
        faces.append(seen.face)
        depths.append(seen.radiance.hits.t)
    return Antialias(q.tables, q.camera, xp.concatenate(faces), xp.concatenate(depths)), aliased


def _summed(scene: Scene, cameras: Any, given: dict[str, Any]) -> RenderGradients:
    """Gradients of images of several cameras: of the scene in all, and of each camera."""
    others = ("scene", "camera", "wanted")
    options = {x: value for x, value in given.items() if x not in others and not x.startswith("adj_")}
    wanted = given["wanted"]
    wanted = None if wanted is None else _paths(scene, cameras, wanted)
    total: dict[str, Any] = {}
    fields = []
    for k, one in enumerate(cameras):
        adj = {}
        for name in CHANNELS:
            value = given[f"adj_{name}"]
            if value is not None and len(value) != len(cameras):
                expected = f"one for each of {len(cameras)} cameras"
                raise ValueError(message("render.adjoint", f"adj_{name}", expected, str(len(value))))
            adj[f"adj_{name}"] = None if value is None else value[k]
        own = f"camera.{k}."
        if wanted is not None:
            paths = [x for x in wanted if not x.startswith("camera.")]
            options["wanted"] = paths + ["camera." + x.removeprefix(own) for x in wanted if x.startswith(own)]
        g = render.adjoint(scene, one, **options, **adj)
        fields.append(g.camera)
        for path, value in g.scene.items():
            add(total, path, value)
    return RenderGradients(total, fields)


def _add_boundaries(q: _Query, adj: Any, out: dict[str, Any]) -> None:
    repeat = q.samples**2 if q.bounces else 1
    # What shows the faces' normals jumps between them, too.
    flat = ["normal" in q.channels or (q.bounces > 0 and smooth is not True) for smooth in q.tables.smooth]
    options: dict[str, Any] = dict(repeat=repeat, seed=q.seed, flat=flat, film=q.film, optics=q.view.optics)
    for edges in edge_samples(q.tables, q.camera, q.seen_by, **options):
        edges.adjoint(adj, out)
    if q.bounces:
        color = adj[..., slice(*_span(q, "color"))]
        for entry in q.tables.lights:
            shadows = ShadowSamples(q.tables, q.camera, entry, count=q.light_points, seed=q.seed, film=q.film)
            shadows.adjoint(color, out)


def _paths(scene: Any, camera: Any, given: Any) -> frozenset[str]:
    """The paths, checked."""
    paths = frozenset((given,) if isinstance(given, str) else given)
    owners = [f"camera.{k}" for k in range(len(camera))] if is_batch(camera) else ["camera"]
    known = {*scene_of(scene).paths(), *(f"{owner}.{name}" for owner in owners for name in CAMERA)}
    if paths - known:
        expected = f"some of {', '.join(sorted(known))}"
        raise ValueError(message("render.adjoint", "wanted", expected, repr(sorted(paths - known))))
    return paths


def _span(q: _Query, name: str) -> tuple[int, int]:
    k = q.channels.index(name)
    return int(q.stops[k]), int(q.stops[k + 1])


def _cotangents(q: _Query, given: dict[str, Any]) -> Any:
    """(H, W, C) of all channels."""
    op, film = "render.adjoint", q.film
    out = None if len(q.channels) == 1 else q.tables.xp.zeros((film.rows, film.columns, int(q.stops[-1])), q.dtype)
    if all(value is None for value in given.values()):
        raise ValueError(message(op, ", ".join(f"adj_{name}" for name in q.channels), "at least one", "None"))
    for name, value in given.items():
        if value is None:
            continue
        if name not in q.channels:
            raise ValueError(message(op, f"adj_{name}", f"None, as channels are {', '.join(q.channels)}", "an array"))
        shape = (film.rows, film.columns, CHANNELS[name])
        array = as_array(value, op=op, name=f"adj_{name}", shape=shape, dtype=q.dtype, device=q.tables.device)
        if out is None:
            return array
        out[..., slice(*_span(q, name))] = array
    return out


def _by_object(tables: SceneTables, out: dict[str, Any]) -> dict[str, Any]:
    """The gradients of the vertices of all objects, object by object; 0 for what nothing was sent to."""
    xp, mesh = tables.xp, tables.mesh
    total = out.pop("vertices", None)
    total = xp.zeros((mesh.n_vertices, 3)) if total is None else total
    normals = out.pop("normals", None)
    if normals is not None:
        assert tables.shading is not None
        total = total + tables.shading.adjoint(normals)
    for name, first, last in zip(tables.names, tables.first_vertex, tables.first_vertex[1:], strict=False):
        out[f"{name}.vertices"] = total[first:last].astype(tables.dtype)
    return out


def _shaped(tables: SceneTables, out: dict[str, Any]) -> dict[str, Any]:
    """Gradients of the shapes of what they are of, with zeros for what the image does not show.

    What is out of sight now may come into it in the next step. A number that stands for three channels has the sum of
    theirs. The emission of what is no light has none: it would not stay zero if it changed.
    """
    for path in out:
        if np.shape(tables.scene[path]) == () and np.ndim(out[path]):
            out[path] = tables.xp.asarray(out[path].sum())
    dark = {f"{name}.material.emission" for name, emits in zip(tables.names, tables.emits, strict=True) if not emits}
    for path in tables.scene.paths():
        if path not in out and path not in dark and (tables.wanted is None or path in tables.wanted):
            out[path] = tables.xp.zeros(np.shape(tables.scene[path]), tables.dtype)
    return out


def _count(op: str, name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        text = message(op, name, f"an integer of at least {least}", type(value).__name__)
        raise TypeError(text) from error
    if number < least:
        raise ValueError(message(op, name, f"an integer of at least {least}", str(number)))
    return number
