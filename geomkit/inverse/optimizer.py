"""Optimisers over arrays of any library: Adam and its kin, gradient descent with momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import array_api_compat
import numpy as np

from geomkit.arrays import describe, imported, library_of, precision_of, to_host
from geomkit.errors import message
from geomkit.inverse.schedule import Schedule, constant

__all__ = ["SGD", "Adam", "Optimizer", "UniformAdam", "VectorAdam"]


class Optimizer:
    """Takes gradients of named arrays and gives the arrays of the next step; those before are never written to.

    Args:
        parameters: arrays of floats by name, NumPy's, CuPy's, torch's or JAX's.
        lr: the learning rate: a number, a schedule (`gk.schedule`), or one of them for each name.

    Attributes:
        parameters: the arrays now, by name.
        steps: number of steps taken.

    Raises:
        ValueError: a rate that is negative or missing.
        TypeError: a parameter that is no array of floats.
    """

    moments: tuple[str, ...] = ()

    def __init__(self, parameters: Mapping[str, Any], lr: float | Schedule | Mapping[str, float | Schedule]):
        self.op = type(self).__name__
        self.parameters: dict[str, Any] = {}
        for name, x in parameters.items():
            x = x.detach() if hasattr(x, "detach") else x
            if "float" not in str(getattr(x, "dtype", "")):
                raise TypeError(message(self.op, f"parameters[{name!r}]", "an array of floats", describe(x)))
            self.parameters[name] = x
        rates = lr if isinstance(lr, Mapping) else dict.fromkeys(self.parameters, lr)
        missing = [name for name in self.parameters if name not in rates]
        if missing:
            raise ValueError(message(self.op, "lr", "a rate for each parameter", f"none for {', '.join(missing)}"))
        self.lr: dict[str, Schedule] = {}
        for name in self.parameters:
            rate: Any = rates[name]
            self.lr[name] = rate if not isinstance(rate, (int, float)) else constant(rate)
        self.steps = 0
        self._state: dict[str, dict[str, Any]] = {
            name: {moment: self._fresh(moment, x) for moment in self.moments} for name, x in self.parameters.items()
        }

    def _fresh(self, moment: str, x: Any) -> Any:
        return 0 * x

    def step(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step against the gradients.

        Args:
            gradients: by name, of the shape of the parameters; those left out do not move.

        Returns:
            the new parameters, by name.

        Raises:
            ValueError: a gradient, or a parameter after the step, that is not finite: names the parameter, and leaves
                all as it was; a wrong shape.
            KeyError: a name of no parameter.
        """
        moved, states = dict(self.parameters), dict(self._state)
        for name, g in gradients.items():
            x = self.parameters[name]
            if tuple(g.shape) != tuple(x.shape):
                raise ValueError(message(f"{self.op}.step", f"gradients[{name!r}]", str(tuple(x.shape)), describe(g)))
            g = g.detach() if hasattr(g, "detach") else g
            self._check(name, "gradients", g)
            xp = array_api_compat.array_namespace(x)
            moved[name], states[name] = self._moved(xp, x, g, dict(self._state[name]), self.lr[name](self.steps))
            self._check(name, "parameters", moved[name])
        self.parameters, self._state, self.steps = moved, states, self.steps + 1
        return dict(moved)

    def _check(self, name: str, what: str, x: Any) -> None:
        bad = ~np.isfinite(to_host(imported(x)))
        if bad.any():
            at = tuple(map(int, np.argwhere(bad)[0]))
            got = f"{int(bad.sum())} of {bad.size} that are not, the first at {list(at)}"
            raise ValueError(message(f"{self.op}.step", f"{what}[{name!r}]", "finite numbers", got))

    def _moved(self, xp: Any, x: Any, g: Any, state: dict[str, Any], rate: float) -> tuple[Any, dict[str, Any]]:
        raise NotImplementedError

    # ---- to keep and to go on

    def state(self) -> dict[str, np.ndarray]:
        """All that the next steps depend on but the rates, as NumPy's arrays: copies, which `load_state` takes back."""
        out = {"steps": np.array(self.steps)}
        for name, x in self.parameters.items():
            out[f"parameters.{name}"] = np.array(to_host(imported(x)))
            for moment, value in self._state[name].items():
                out[f"{moment}.{name}"] = np.array(to_host(imported(value)))
        return out

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, bit for bit.

        Args:
            state: arrays by name.

        Raises:
            KeyError: one is missing.
            ValueError: one of another shape.
        """
        known = self.state()
        if missing := sorted(set(known) - set(state)):
            raise KeyError(f"{self.op}.load_state: no {missing[0]!r} in it")
        for name, value in known.items():
            if np.shape(state[name]) != value.shape:
                got = str(np.shape(state[name]))
                raise ValueError(message(f"{self.op}.load_state", f"state[{name!r}]", str(value.shape), got))
        self.steps = int(state["steps"])
        for name, x in self.parameters.items():
            library = library_of(x)
            self.parameters[name] = library.wrap(_like(state[f"parameters.{name}"], x))
            for moment in self._state[name]:
                self._state[name][moment] = library.wrap(_like(state[f"{moment}.{name}"], self._state[name][moment]))


def _like(value: Any, x: Any) -> np.ndarray:
    return np.array(value, dtype=precision_of(x))


class Adam(Optimizer):
    """Adam: steps as long as the rate, whatever the size of the gradients, entry by entry.

    Args:
        parameters, lr: as for `Optimizer`.
        betas: how much of the mean of gradients and of their squares is kept in each step.
        eps: added to the root of the mean square.

    Raises:
        ValueError, TypeError: as `Optimizer`; betas outside [0, 1).

    Source: Kingma and Ba (2015).

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> optimizer = gk.Adam({"x": np.array([1.0, -2.0])}, lr=0.1)
        >>> optimizer.step({"x": np.array([5.0, -0.1])})["x"].round(6).tolist()
        [0.9, -1.9]
    """

    moments = ("mean", "square")

    def __init__(
        self, parameters: Mapping[str, Any], lr: Any, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ):
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(message(type(self).__name__, "betas", "two numbers in [0, 1)", str(betas)))
        self.betas, self.eps = betas, eps
        super().__init__(parameters, lr)

    def _square(self, xp: Any, g: Any) -> Any:
        """What is remembered of squares of gradients."""
        return g * g

    def _root(self, xp: Any, square: Any) -> Any:
        return xp.sqrt(square)

    def _moved(self, xp: Any, x: Any, g: Any, state: dict[str, Any], rate: float) -> tuple[Any, dict[str, Any]]:
        one, two = self.betas
        state["mean"] = one * state["mean"] + (1 - one) * g
        state["square"] = two * state["square"] + (1 - two) * self._square(xp, g)
        k = self.steps + 1
        root = self._root(xp, state["square"] / (1 - two**k))
        return x - rate * (state["mean"] / (1 - one**k)) / (root + self.eps), state


class UniformAdam(Adam):
    """Adam with one length of steps for all entries: by the largest mean square, so that directions stay what they are.

    The optimiser of Large Steps.

    Args:
        parameters, lr, betas, eps: as for `Adam`.

    Raises:
        ValueError, TypeError: as `Adam`.

    Source: Nicolet, Jacobson and Jakob (2021).

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> optimizer = gk.UniformAdam({"x": np.array([1.0, 1.0])}, lr=0.1)
        >>> optimizer.step({"x": np.array([4.0, 1.0])})["x"].round(6).tolist()
        [0.9, 0.975]
    """

    def _root(self, xp: Any, square: Any) -> Any:
        return xp.sqrt(xp.max(square)) if math.prod(square.shape) else square


class VectorAdam(Adam):
    """Adam with one mean square a row, so that nothing depends on how the axes lie.

    Args:
        parameters, lr, betas, eps: as for `Adam`; the last axis of a parameter is that of its vectors.

    Raises:
        ValueError, TypeError: as `Adam`.

    Source: Ling et al. (2022).

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> optimizer = gk.VectorAdam({"x": np.zeros((1, 3))}, lr=0.5)
        >>> optimizer.step({"x": np.array([[3.0, 4.0, 0.0]])})["x"].round(6).tolist()
        [[-0.3, -0.4, 0.0]]
    """

    def _fresh(self, moment: str, x: Any) -> Any:
        return 0 * x if moment == "mean" or not x.ndim else 0 * x[..., :1]

    def _square(self, xp: Any, g: Any) -> Any:
        return xp.sum(g * g, axis=-1, keepdims=True) if g.ndim else g * g


class SGD(Optimizer):
    """Gradient descent with momentum.

    Args:
        parameters, lr: as for `Optimizer`.
        momentum: how much of the step before is taken again.

    Raises:
        ValueError, TypeError: as `Optimizer`; a momentum outside [0, 1).

    Example:
        >>> import geomkit as gk
        >>> import numpy as np
        >>> optimizer = gk.SGD({"x": np.array([1.0])}, lr=0.1, momentum=0.5)
        >>> for _ in range(2):
        ...     x = optimizer.step({"x": np.array([1.0])})["x"]
        >>> x.round(6).tolist()
        [0.75]
    """

    moments = ("velocity",)

    def __init__(self, parameters: Mapping[str, Any], lr: Any, *, momentum: float = 0.0):
        if not 0 <= momentum < 1:
            raise ValueError(message("SGD", "momentum", "a number in [0, 1)", repr(momentum)))
        self.momentum = momentum
        super().__init__(parameters, lr)

    def _moved(self, xp: Any, x: Any, g: Any, state: dict[str, Any], rate: float) -> tuple[Any, dict[str, Any]]:
        state["velocity"] = self.momentum * state["velocity"] + g
        return x - rate * state["velocity"], state
