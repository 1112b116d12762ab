"""Constants as C++ text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from geomkit.lang.types import Scalar, boolean, f32

__all__ = ["literal"]


def literal(value: Any, t: Scalar) -> str:
    """A constant."""
    if t is boolean:
        return "true" if value else "false"
    if t.is_float:
        if not math.isfinite(value):
            infinite = f"gk::infinity({t.c}())"
            text = f"({infinite} - {infinite})" if math.isnan(value) else f"{'-' if value < 0 else ''}{infinite}"
            return text if math.isnan(value) or value > 0 else f"({text})"
        text = repr(float(np.float32(value))) if t is f32 else repr(float(value))
        if t is f32:
            text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
            text = repr(float(text)) + "f"
        return f"({text})" if text.startswith("-") else text
    suffix = {"u32": "u", "i64": "ll", "u64": "ull"}.get(t.name, "")
    if value == -(1 << t.bits - 1) and t.kind == "i" and t.bits >= 32:
        return f"(-{-(value + 1)}{suffix} - 1)"
    text = f"{value}{suffix}"
    if t.bits < 32:
        return f"({t.c}){text}" if value >= 0 else f"({t.c})({text})"
    return f"({text})" if value < 0 else text
