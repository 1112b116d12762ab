"""Learning rates as functions of the step: a number, or one of these."""

from __future__ import annotations

import math
from collections.abc import Callable

from geomkit.errors import message

__all__ = ["Schedule", "constant", "cosine", "exponential", "step", "warmup"]

Schedule = Callable[[int], float]


def constant(rate: float) -> Schedule:
    """The same rate at every step.

    Args:
        rate: not negative.

    Returns:
        The schedule.

    Raises:
        ValueError: a rate that is negative or not finite.
    """
    value = _number("constant", "rate", rate)
    return lambda k: value


def exponential(rate: float, decay: float, *, every: int = 1) -> Schedule:
    """rate * decay^(k / every).

    Args:
        rate: at step 0.
        decay: by what it is multiplied.
        every: so many steps.

    Returns:
        The schedule.

    Raises:
        ValueError: a number out of range.

    Example:
        >>> halving = exponential(0.1, 0.5, every=100)
        >>> halving(0), halving(200)
        (0.1, 0.025)
    """
    value, factor, n = _number("exponential", "rate", rate), _positive("exponential", "decay", decay), _steps(every)
    return lambda k: value * factor ** (k / n)


def cosine(rate: float, steps: int, *, end: float = 0.0) -> Schedule:
    """Half a wave from one rate down to another, which then stays.

    Args:
        rate: at step 0.
        steps: when the end is reached.
        end: the last rate.

    Returns:
        The schedule.

    Raises:
        ValueError: a number out of range.

    Example:
        >>> slope = cosine(1.0, 10)
        >>> slope(0), round(slope(5), 12), slope(20)
        (1.0, 0.5, 0.0)
    """
    first, last, n = _number("cosine", "rate", rate), _number("cosine", "end", end), _steps(steps)
    return lambda k: last + (first - last) * 0.5 * (1 + math.cos(math.pi * min(k / n, 1.0)))


def warmup(schedule: Schedule | float, steps: int) -> Schedule:
    """Another schedule, reached in even steps: the first is 1 / steps of it.

    Args:
        schedule: a schedule or a rate.
        steps: when it is reached.

    Returns:
        The schedule.

    Raises:
        ValueError: a number out of range.

    Example:
        >>> slow = warmup(1.0, 4)
        >>> slow(0), slow(3), slow(9)
        (0.25, 1.0, 1.0)
    """
    full: Schedule = schedule if callable(schedule) else constant(schedule)
    n = _steps(steps)
    return lambda k: full(k) * min((k + 1) / n, 1.0)


def step(rate: float, decay: float, *, every: int) -> Schedule:
    """A rate that is multiplied now and then: rate * decay^floor(k / every).

    Args:
        rate: at step 0.
        decay: by what it is multiplied.
        every: so many steps.

    Returns:
        The schedule.

    Raises:
        ValueError: a number out of range.

    Example:
        >>> stairs = step(1.0, 0.5, every=10)
        >>> stairs(9), stairs(10)
        (1.0, 0.5)
    """
    value, factor, n = _number("step", "rate", rate), _positive("step", "decay", decay), _steps(every)
    return lambda k: value * factor ** (k // n)


def _number(op: str, name: str, x: float) -> float:
    if not 0 <= x < math.inf:
        raise ValueError(message(f"schedule.{op}", name, "a number of at least 0", repr(x)))
    return float(x)


def _positive(op: str, name: str, x: float) -> float:
    if not 0 < x < math.inf:
        raise ValueError(message(f"schedule.{op}", name, "a positive number", repr(x)))
    return float(x)


def _steps(n: int) -> int:
    if not (isinstance(n, int) and n >= 1):
        raise ValueError(message("schedule", "steps", "an integer of at least 1", repr(n)))
    return n
