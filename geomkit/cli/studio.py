"""The look of `geomkit render`: materials, lights, a ground and a background for a scene that has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import geomkit
from geomkit.errors import MeshError, message
from geomkit.mesh.creases import cut_at_creases
from geomkit.render.camera import Camera
from geomkit.render.color import srgb_to_linear
from geomkit.render.merged import merged
from geomkit.render.scene import ConstantLight, DirectionalLight, Light, Material, Object, Scene

OPAQUE = (".jpg", ".jpeg", ".hdr", ".gif", ".mp4")  # formats without alpha
LIGHTS = ("studio", "sun", "sky", "scene")
CREASE = 40.0  # degrees
STRIP = 1 << 20  # samples at a time: what a progress bar counts
FILL = 0.8  # of an image that frames its object
BOUNCES = {"scene": 3}  # surfaces that light may meet; 1 in the studio, which is without grain then

# Radiance of the sky, and irradiance of the key light on a surface across it.
SKY, KEY = np.array([0.40, 0.42, 0.445]), np.array([3.45, 3.3, 3.1])
# Of a weak light from low on the right, in place of what the ground would reflect upon shaded sides.
FILL_LIGHT = np.array([0.55, 0.6, 0.66])
DISTANCE, BREADTH, FILL_BREADTH = 16.0, 4.2, 6.0  # of the lights, in radii of the scene
EXTENT, CELLS = 60.0, 96  # of the ground, in radii; and its squares a side

# Where tones begin to be compressed, and the radiance that is white.
SHOULDER, WHITE = 0.7, 1.5
POWER = (WHITE - SHOULDER) / (1 - SHOULDER)

# Of what has no material of its own: glazed clay.
CLAY = Material((0.15, 0.35, 0.49), "metallic", metallic=0.0, roughness=0.42)

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Look:
    """What the options ask for.

    Attributes:
        light: one of LIGHTS, or None for one that fits the scene.
        background: (3,) linear colours of the file, or None for none.
        ground: whether a ground takes shadows.
        albedo: (3,) linear, of what has no colour of its own; or None.
        samples: along each side of a pixel.
        up: upwards.
    """

    light: str | None
    background: np.ndarray | None
    ground: bool
    albedo: np.ndarray | None
    samples: int
    up: Vector

    def chosen(self, scene: Scene) -> Look:
        """This look with a light for the scene: its own if it has any, where none is asked for."""
        light = self.light or ("scene" if scene.lights else "studio")
        return replace(self, light=light, ground=self.ground and light != "scene")


def look_of(
    light: str | None, albedo: str | None, background: str, ground: bool, samples: int, up: Vector, extension: str
) -> Look:
    """The look that the options describe, for a format.

    Raises:
        ValueError: a light or a colour that is none, or no background where the format has no alpha.
    """
    if light is not None and light not in LIGHTS:
        raise ValueError(message("render", "light", f"one of {', '.join(LIGHTS)}", repr(light)))
    behind = None if background == "none" else colour("background", background)
    if behind is None and extension in OPAQUE:
        raise ValueError(message("render", "background", f"a colour, as {extension} has no alpha", background))
    chosen = None if albedo is None else colour("albedo", albedo)
    return Look(light, behind, ground and behind is not None, chosen, samples, up)


def colour(name: str, text: str) -> np.ndarray:
    """Linear colours of a name such as "white" or "#ff8800", or of three numbers from 0 to 1 (sRGB) with commas.

    Raises:
        ValueError: it is none.
    """
    from matplotlib.colors import to_rgb

    try:
        given = [float(x) for x in text.split(",")] if "," in text else to_rgb(text)
        if len(given) != 3 or not all(0 <= x <= 1 for x in given):
            raise ValueError(text)
    except ValueError as error:
        expected = "a colour: a name, #rrggbb, or r,g,b from 0 to 1"
        raise ValueError(message("render", name, expected, repr(text))) from error
    return srgb_to_linear(np.array(given))


def developed(radiance: np.ndarray) -> np.ndarray:
    """Linear values of a picture from 0 to 1: radiance as it is up to SHOULDER, and less and less of it up to WHITE.

    A colour keeps its hue: all three numbers change as the largest does. Of (..., 4) the colours are divided by alpha.
    """
    if radiance.shape[-1] == 4:
        alpha = np.clip(radiance[..., 3:], 0, 1)
        return np.concatenate([developed(radiance[..., :3] / np.maximum(alpha, 1e-6)), alpha], axis=-1)
    largest = radiance.max(axis=-1, keepdims=True)
    t = np.clip((largest - SHOULDER) / (WHITE - SHOULDER), 0, 1)
    shown = np.where(largest > SHOULDER, SHOULDER + (1 - SHOULDER) * (1 - (1 - t) ** POWER), largest)
    return radiance * (shown / np.maximum(largest, 1e-12))


def undeveloped(shown: np.ndarray) -> np.ndarray:
    """The radiance that `developed` makes these values of."""
    largest = shown.max(axis=-1, keepdims=True)
    t = 1 - (1 - np.clip((largest - SHOULDER) / (1 - SHOULDER), 0, 1)) ** (1 / POWER)
    radiance = np.where(largest > SHOULDER, SHOULDER + (WHITE - SHOULDER) * t, largest)
    return shown * (radiance / np.maximum(largest, 1e-12))


def fitted(cameras: list[Camera], vertices: np.ndarray) -> list[Camera]:
    """Cameras moved, not turned, and all alike, so that points fill the middle FILL of the images' width or height.

    A point (x, y, z) in a camera's axes, moved by (a, b, c), is within the image's sides if |x + a| <= s (z + c) with
    the slope s of a side; so the least c and its a are given by the points that touch the two sides.
    """
    K = np.asarray(cameras[0].K)
    slopes = FILL * 0.5 * np.array([cameras[0].width, cameras[0].height]) / K.diagonal()[:2]
    poses = [np.array(camera.world_to_camera) for camera in cameras]
    right, left = np.full(2, -np.inf), np.full(2, -np.inf)
    for pose in poses:
        at = vertices @ pose[:3, :3].T + pose[:3, 3]
        right = np.maximum(right, (at[:, :2] - slopes * at[:, 2:]).max(axis=0))
        left = np.maximum(left, (-at[:, :2] - slopes * at[:, 2:]).max(axis=0))
    shift = np.append(0.5 * (left - right), ((left + right) / (2 * slopes)).max())
    for pose in poses:
        pose[:3, 3] += shift
    return [replace(camera, world_to_camera=pose) for camera, pose in zip(cameras, poses, strict=True)]


def whole_mesh(scene: Scene) -> geomkit.Mesh:
    """All objects of a scene as one mesh, to be framed.

    Raises:
        MeshError: there is no face.
    """
    meshes = [thing.mesh.plain for thing in scene.objects.values() if thing.mesh.n_faces]
    if not meshes:
        raise MeshError(message("Camera.framing", "mesh", "at least one face", "none"))
    return merged(meshes)


def dressed(scene: Scene, look: Look) -> Scene:
    """The scene with smooth normals where it is smooth, and the material asked for."""
    objects = {}
    for name, thing in scene.objects.items():
        if not thing.mesh.n_faces:
            continue
        mesh, source = cut_at_creases(thing.mesh, CREASE)
        material, uv = thing.material, thing.uv
        if is_plain(material):
            material = CLAY if look.albedo is None else replace(CLAY, albedo=tuple(look.albedo))
        elif look.albedo is not None:
            material, uv = replace(material, albedo=tuple(look.albedo), model="diffuse"), None
        elif np.ndim(material.albedo) == 2:
            material = replace(material, albedo=np.asarray(material.albedo)[source])
        # Whatever the file says, it is looked at from all sides.
        material = replace(material, two_sided=True)
        uv = None if uv is None else np.asarray(uv)[source]
        objects[name] = Object(mesh, material, uv=uv, smooth=True)
    return Scene(objects, scene.lights if look.light == "scene" else ())


def is_plain(material: Material) -> bool:
    """Whether a material is the default one."""
    return np.ndim(material.albedo) == 1 and material == Material()


class Studio:
    """A scene with its lights and ground about it.

    Args:
        scene: dressed.
        mesh: all of it.
        camera: where it is seen from at first: the key light comes from the left of it.
        look: what is asked for.
    """

    def __init__(self, scene: Scene, mesh: geomkit.Mesh, camera: Camera, look: Look):
        self.look = look
        self.center = np.asarray(mesh.center, np.float64)
        vertices = np.asarray(mesh.vertices_array, np.float64)
        self.up = np.array(look.up, np.float64) / np.linalg.norm(look.up)
        self.radius = float(np.linalg.norm(vertices - self.center, axis=1).max())
        self.floor = float((vertices @ self.up).min())
        self.background = np.zeros(3) if look.background is None else undeveloped(look.background)
        outwards = camera.eye - self.center
        outwards = outwards - self.up * (outwards @ self.up)
        if np.linalg.norm(outwards) < 1e-6 * self.radius:
            outwards = np.cross(self.up, [1.0, 0, 0] if abs(self.up[0]) < 0.9 else [0, 0, 1.0])
        self.front = outwards / np.linalg.norm(outwards)
        self.side = np.cross(self.up, self.front)
        objects, lights = self._lit(scene)
        if look.ground and camera.eye @ self.up > self.floor:
            objects["ground of the studio"] = self._ground(objects)
        self.scene = Scene(objects, lights)

    def _toward(self, front: float, side: float, up: float) -> np.ndarray:
        direction = front * self.front + side * self.side + up * self.up
        return direction / np.linalg.norm(direction)

    def _lit(self, scene: Scene) -> tuple[dict[str, Object], dict[str, Light]]:
        objects, kind = dict(scene.objects), self.look.light
        if kind == "scene":
            if not scene.lights and not any(np.any(thing.material.emission) for thing in objects.values()):
                raise ValueError(
                    message("render", "light", f"one of {', '.join(LIGHTS[:3])}, as the file has none", kind)
                )
            return objects, dict(scene.lights)
        sky = ConstantLight(tuple(SKY) if kind != "sky" else (1.0,) * 3, visible=False)
        lights: dict[str, Light] = {"sky of the studio": sky}
        self.key = self._toward(0.5, -0.85, 1.0)
        self.panels: dict[str, np.ndarray] = {}
        if kind != "sky":
            objects["fill of the studio"] = self._panel("fill", self._toward(0.5, 0.8, 0.45), FILL_LIGHT, FILL_BREADTH)
        if kind == "sun":
            lights["key of the studio"] = DirectionalLight(tuple(-self.key), tuple(KEY))
        if kind == "studio":
            objects["key of the studio"] = self._panel("key", self.key, KEY, BREADTH)
        return objects, lights

    def _panel(self, name: str, toward: np.ndarray, irradiance: np.ndarray, breadth: float) -> Object:
        """A square that shines upon the scene, and is black from behind."""
        at = self.center + DISTANCE * self.radius * toward
        a = np.cross(self.up, toward)
        a = a / np.linalg.norm(a) * breadth * self.radius
        b = np.cross(toward, a)
        corners = self.panels[name] = at + np.array([-a - b, -a + b, a + b, a - b])
        power = irradiance * DISTANCE**2 / (2 * breadth) ** 2
        material = Material((0.0,) * 3, emission=tuple(power), two_sided=False)
        return Object(geomkit.Mesh(corners.astype(np.float32), [[0, 1, 2], [0, 2, 3]]), material)

    def _ground(self, objects: dict[str, Object]) -> Object:
        """A plane of just the brightness of the background, where nothing is in the light's way."""
        # Squares grow with their distance.
        step = np.linspace(-1, 1, CELLS + 1)
        place = EXTENT * self.radius * np.sign(step) * np.abs(step) ** 3
        x, y = np.meshgrid(place, place, indexing="ij")
        foot = self.center + self.up * (self.floor - self.center @ self.up - 1e-4 * self.radius)
        points = foot + x.reshape(-1, 1) * self.side + y.reshape(-1, 1) * self.front
        corner = np.arange((CELLS + 1) ** 2).reshape(CELLS + 1, CELLS + 1)
        a, b, c, d = (z.ravel() for z in (corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]))
        faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
        light = self._irradiance(points, objects) / np.pi
        albedo = (self.background / np.maximum(light, 1e-6)).astype(np.float32)
        return Object(geomkit.Mesh(points.astype(np.float32), faces), Material(albedo))

    def _irradiance(self, points: np.ndarray, objects: dict[str, Object]) -> np.ndarray:
        """(N, 3) on the ground, the scene not being in the way."""
        kind = self.look.light
        total = np.broadcast_to(np.pi * (1.0 if kind == "sky" else SKY), points.shape)
        if kind == "sun":
            total = total + KEY * (self.key @ self.up)
        for name, corners in self.panels.items():
            power = np.array(objects[f"{name} of the studio"].material.emission)
            bright, dark = (lambert(points, self.up, side)[:, None] for side in (corners, corners[::-1]))
            # It is in the way of some of the sky, too.
            total = total + power * bright - SKY * (bright + dark)
        return total

    def radiance(self, camera: Camera, progress: Callable[[int, int], None]) -> np.ndarray:
        """(H, W, 3) what a camera sees, or (H, W, 4) with alpha, and colours not yet divided by it.

        Args:
            camera: from where it is seen.
            progress: called with the strips done and the strips there are.
        """
        n = self.look.samples
        rows = max(1, STRIP // (camera.width * n * n))
        strips = range(0, camera.height, rows)
        out = np.empty((camera.height, camera.width, 4))
        for k, first in enumerate(strips):
            last = min(first + rows, camera.height)
            K = np.array(camera.K)
            K[1, 2] -= first
            strip = replace(camera, K=K, height=last - first)
            image = geomkit.render(
                self.scene,
                strip,
                channels=("color", "mask"),
                samples=n,
                depth=BOUNCES.get(self.look.light or "", 1),
                boundary="none",
                seed=k,
            )
            out[first:last, :, :3], out[first:last, :, 3:] = image.color, image.mask
            progress(k + 1, len(strips))
        if self.look.background is None:
            return out
        return out[..., :3] + (1 - np.clip(out[..., 3:], 0, 1)) * self.background


def lambert(points: np.ndarray, normal: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(N,) irradiance at points of a plane from a polygon above it that has radiance 1 (Lambert, 1760).

    The polygon shines to the side from which its corners are seen counter-clockwise.
    """
    to = corners - points[:, None]
    to = to / np.linalg.norm(to, axis=2, keepdims=True)
    after = np.roll(to, -1, axis=1)
    across = np.cross(to, after)
    length = np.maximum(np.linalg.norm(across, axis=2), 1e-12)
    angle = np.arctan2(length, (to * after).sum(axis=2))
    return np.maximum(-0.5 * (angle * (across @ normal) / length).sum(axis=1), 0)
