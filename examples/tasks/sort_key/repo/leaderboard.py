"""Who leads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Player:
    name: str
    points: int


def ranking(players):
    """Most points first; equal points by name."""
    return sorted(players, key=lambda player: (player.points, player.name), reverse=True)


def places(players):
    """Name to place; equal points share a place, and the next place is left out."""
    ranked = ranking(players)
    points = [player.points for player in ranked]
    return {player.name: points.index(player.points) + 1 for player in ranked}
