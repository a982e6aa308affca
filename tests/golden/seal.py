"""Writes the sealed golden vectors: golden datagrams as an endpoint with the key in `sealed/plant.key` seals them.

Run by hand, when the format changes on purpose: `python -m tests.golden.seal`. Nothing in these files is secret.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from glue.contract import Train
from glue.security import AES_GCM, CHACHA, Sealing, new_key, rotated
from tests.golden.make import stored
from tests.golden.scenario import address

FOLDER = Path(__file__).parent / "sealed"
KEY = FOLDER / "plant.key"
SEALED = {"data": AES_GCM, "announcement": AES_GCM, "json": CHACHA}
"""Golden datagrams by name, and what seals them."""
BLOCK = 8
"""How often the block has the golden datagram `data`."""


def sealed() -> dict[str, bytes]:
    """The content of the files, by name."""
    random = Random(31)
    key = rotated(new_key(random.randbytes), random.randbytes)
    found = {KEY.name: key.to_text().encode()}
    for name, suite in SEALED.items():
        layer = Sealing(key=key, network_id=1, suite=suite, entropy=random.randbytes, tell=print, first=7)
        to = None if name == "announcement" else address("hall")
        datagram = stored()[name]
        found[f"{name}.sealed"] = bytes(layer.send(0.0, [Train(to, datagram, len(datagram))])[0].data)
        if name == "data":
            layer.sealer.grant(address("hall"), 100)
            found["block.sealed"] = bytes(layer.send(0.0, [Train(to, datagram * BLOCK, len(datagram))])[0].data)
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, content in sealed().items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
