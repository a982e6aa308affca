"""A network splits and heals: the keepers fetch what they missed, and a program is told. In virtual time.

    python examples/healing.py

A split of a real network looks the same to programs; the simulator makes one without waiting.
"""

from __future__ import annotations

from glue.simulation import World


def main() -> None:
    """Split the network between two keepers, write on both sides, and let it heal."""
    world = World()
    boiler, tank, left, right = (world.endpoint(name) for name in ("boiler", "tank", "left", "right"))
    kept = {}
    for keeper in (left, right):
        kept[keeper.name] = keeper.keep("plant/#")
        keeper.on_heal = lambda healed, name=keeper.name: print(name, "fetched", healed.fetched, "messages")
    world.run(3.0)

    world.network.partition([boiler.host, left.host], [tank.host, right.host])
    for number in range(100):
        boiler.publish("plant/boiler", number)
        tank.publish("plant/tank", number)
        world.run(0.1)
    boiler.publish("plant/mode", "day", retain=True)
    tank.publish("plant/mode", "night", retain=True)
    world.run(1.0)

    left.on_conflict = lambda conflict: print(conflict.topic, *[version.payload for version in conflict.versions])
    world.network.heal()
    world.run(10.0)
    for name, topics in kept.items():
        print(name, "has", ", ".join(sorted({stream.topic for stream, _ in topics.log.streams(lambda topic: True)})))


if __name__ == "__main__":
    main()
