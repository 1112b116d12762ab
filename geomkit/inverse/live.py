"""A fit to watch: a bar and pictures in notebooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from geomkit.errors import message, missing_package
from geomkit.render.color import linear_to_srgb

if TYPE_CHECKING:
    from geomkit.inverse.fit import FitStep

__all__ = ["LiveView", "notebook_progress"]


class LiveView:
    """A callback of `gk.fit` that shows an image, what it looks like now, and the loss, in a notebook.

    Args:
        every: iterations between pictures.
        view: number of the view to show.

    Raises:
        ValueError: numbers out of range.
        ImportError: IPython is missing.

    Example:
        >>> live = LiveView(every=10)
        >>> live.every
        10
    """

    def __init__(self, every: int = 20, view: int = 0):
        if not (isinstance(every, int) and every >= 1):
            raise ValueError(message("LiveView", "every", "an integer of at least 1", repr(every)))
        self.every, self.view = every, view
        self._handle: Any = None

    def __call__(self, step: FitStep) -> None:
        if step.iteration % self.every and step.iteration != step.iterations:
            return
        try:
            from IPython.display import display
        except ImportError as error:
            raise missing_package("ipython", "notebook", "LiveView") from error
        figure = self.figure(step)
        if self._handle is None:
            self._handle = display(figure, display_id=True)
        else:
            self._handle.update(figure)

    def figure(self, step: FitStep) -> Any:
        """The picture, a figure of matplotlib."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3), layout="constrained")
        panels = figure.subplots(1, 3)
        name = step.views.channels[0]
        images = {"image": step.views.target(self.view, 1)[name], "now": getattr(step.render(self.view), name)}
        for panel, (title, image) in zip(panels, images.items(), strict=False):
            shown = np.clip(linear_to_srgb(image) if name == "color" else image, 0, 1)
            panel.imshow(shown[:, :, 0] if shown.shape[2] == 1 else shown, cmap="gray", vmin=0, vmax=1)
            panel.set_title(title)
            panel.axis("off")
        panels[2].semilogy(step.losses)
        panels[2].set(title=f"loss {step.loss:.4g}", xlabel="iteration")
        return figure


def notebook_progress(total: int) -> Callable[[int, int, float], None] | None:
    """A bar of tqdm, if this runs in a notebook and tqdm is there; it appears after two seconds."""
    shell = sys.modules.get("IPython")
    if shell is None or type(shell.get_ipython()).__name__ != "ZMQInteractiveShell":
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    shown = tqdm(total=total, delay=2, leave=False)

    def update(done: int, total: int, loss: float) -> None:
        shown.set_postfix(loss=f"{loss:.4g}", refresh=False)
        shown.update(done - shown.n)
        if done == total:
            shown.close()

    return update
