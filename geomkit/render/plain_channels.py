"""Channels of what rays hit that no light changes: without surfaces, materials and steps of light."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geomkit.render.first_hits import FirstHits
from geomkit.render.interpolate import interpolated
from geomkit.render.tables import SceneTables

__all__ = ["plain_channels"]


def plain_channels(tables: SceneTables, channels: Sequence[str], first: FirstHits) -> Any:
    """(N, C), the channels one after the other, "color" not among them; 0 where nothing is hit."""
    xp, hits = tables.xp, first.hits
    hit = (hits.face >= 0)[:, None]
    parts = []
    for name in channels:
        if name == "mask":
            parts.append(hit.astype(tables.dtype))
        elif name == "depth":
            parts.append(xp.where(hit, hits.t[:, None], 0))
        elif name == "position":
            parts.append(xp.where(hit, hits.position, 0))
        elif name == "normal":
            parts.append(hits.normal)
        else:
            parts.append(_albedo(tables, first))
    return xp.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def _albedo(tables: SceneTables, first: FirstHits) -> Any:
    hits, at, own = first.hits, first.at, [attributes["albedo"] for attributes in tables.attributes]
    if len(own) == 1 and own[0].vertex is not None:
        return interpolated(tables.mesh, own[0].vertex, hits.face, hits.barycentric)
    face = hits.face[at]
    rows = tables.material[tables.object_of_face[face]]
    if tables.varying:
        width = tables.widths(hits.t[at], hits.normal[at], first.directions[at]) if tables.filtered else None
        tables.vary(rows, face, hits.barycentric[at], width)
    out = tables.xp.zeros((len(hits.face), 3), tables.dtype)
    out[at] = rows[:, :3]
    return out
