"""The page that says how well a fit went."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

import numpy as np

import geomkit
from geomkit.files import replacing
from geomkit.inverse.dataset import Dataset
from geomkit.render.camera import Camera
from geomkit.render.image_io import encoded_png
from geomkit.render.scene import Scene

SHOWN = 6  # views on the page
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; color: #222 }
img { image-rendering: pixelated; background: #fff } table { border-collapse: collapse }
td, th { padding: .3em .8em; text-align: left; border-bottom: 1px solid #ddd }
.views img { width: 200px; margin: 2px } figure { display: inline-block; margin: .5em }
figcaption { font-size: .85em; color: #555 }
"""


def write_report(
    folder: Path, data: Dataset, scene: Scene, cameras: list[Camera], losses: list[np.ndarray], seconds: float
) -> dict[str, str]:
    """Write `loss.png` and `report.html`, which needs no other file.

    Args:
        folder: where; `turntable.gif` is there already.
        data: what was compared with.
        scene, cameras: what was found.
        losses: of each fit.
        seconds: that it took.

    Returns:
        The numbers on the page, by name.
    """
    chosen = np.unique(np.linspace(0, len(data) - 1, min(SHOWN, len(data))).round().astype(int)).tolist()
    figures, decibels = [], []
    for k in range(len(data)):
        target, seen = compared(data.images[k], scene, cameras[k])
        decibels.append(float(geomkit.psnr(seen, target)))
        if k in chosen:
            pictures = "".join(f'<img src="{_png(x)}" alt="">' for x in (target, seen, abs(target - seen)))
            name = html.escape(data.names[k])
            figures.append(f"<figure>{pictures}<figcaption>{name}: {decibels[-1]:.1f} dB</figcaption></figure>")
    mesh = next(iter(scene.objects.values())).mesh
    numbers = {
        "views": f"{len(data)}",
        "iterations": f"{sum(map(len, losses))}",
        "loss": f"{losses[0][0]:.4g} -> {losses[0][-1]:.4g}" + "".join(f", then {x[-1]:.4g}" for x in losses[1:]),
        "mean PSNR of the views, linear": f"{np.mean(decibels):.2f} dB",
        "mesh": f"{mesh.topology.n_unique} points, {mesh.n_faces} faces, {'closed' if mesh.is_closed else 'open'}",
        "time": f"{seconds:.0f} s",
    }
    plot = loss_plot(losses)
    with replacing(folder / "loss.png") as file:
        file.write(plot)
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(x)}</td></tr>" for name, x in numbers.items())
    film = _data("image/gif", (folder / "turntable.gif").read_bytes())
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>geomkit fit</title><style>{STYLE}</style></head><body>
<h1>geomkit fit</h1>
<table>{rows}</table>
<p><img src="{film}" alt="The model, turning">
<img src="{_data("image/png", plot)}" alt="The loss of each iteration"></p>
<h2>Views: image, model, difference</h2>
<div class="views">{"".join(figures)}</div>
</body></html>
"""
    with replacing(folder / "report.html") as file:
        file.write(page.encode())
    return numbers


def compared(image: np.ndarray, scene: Scene, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """An image and its rendering, (H, W, 3) linear; where there is alpha, on white."""
    seen = geomkit.render(scene, camera, channels=("color", "mask"), samples=3)
    color, mask = np.asarray(seen.color), np.asarray(seen.mask)
    if image.shape[2] < 4:
        return image[:, :, :3], color
    alpha = image[:, :, 3:]
    return image[:, :, :3] * alpha + 1 - alpha, color + 1 - mask


def loss_plot(losses: list[np.ndarray]) -> bytes:
    """A PNG of the loss of each iteration."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3), dpi=100, layout="constrained")
    axes, first = figure.subplots(), 0
    for name, values in zip(("fit", "texture"), losses, strict=False):
        axes.semilogy(np.arange(first, first + len(values)), values, label=name)
        first += len(values)
    axes.set(xlabel="iteration", ylabel="loss")
    axes.grid(color="#dddddd")
    axes.legend()
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _png(image: Any) -> str:
    return _data("image/png", encoded_png(np.clip(np.asarray(image, np.float32), 0, 1)))


def _data(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
