"""An object as OBJ, with its colours in MTL and PNG."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from geomkit.arrays import to_host
from geomkit.errors import message
from geomkit.files import replacing
from geomkit.render.image_io import save_image
from geomkit.render.scene import Object
from geomkit.render.texture import Texture


def write_obj(path: Path, thing: Object) -> None:
    """Write an object with uv and a texture of albedo as three files of one name.

    Args:
        path: of the .obj file; .mtl and .png lie beside it.
        thing: the object.

    Raises:
        ValueError: it has no uv.
    """
    if thing.uv is None:
        raise ValueError(message("fit", "object", "uv", "none"))
    albedo = thing.material.albedo
    save_image(path.with_suffix(".png"), albedo.image if isinstance(albedo, Texture) else albedo)
    name = path.stem
    with replacing(path.with_suffix(".mtl")) as file:
        file.write(f"newmtl {name}\nKa 0 0 0\nKd 1 1 1\nKs 0 0 0\nillum 1\nmap_Kd {name}.png\n".encode())
    vertices, faces = to_host(thing.mesh.vertices_array), to_host(thing.mesh.faces_array) + 1
    lines = [f"mtllib {name}.mtl", f"o {name}"]
    lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in vertices.tolist()]
    lines += [f"vt {u:.9g} {v:.9g}" for u, v in np.asarray(thing.uv, np.float64).tolist()]
    lines.append(f"usemtl {name}")
    lines += [f"f {a}/{a} {b}/{b} {c}/{c}" for a, b, c in faces.tolist()]
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
