"""A closed group: a key, two members with identities, and rules. All files are made in a temporary directory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile

import glue
from glue.cmd import key as command


def glue_key(*words: str) -> None:
    """Run `glue key` as a shell would."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert command.main(words) == 0


def make_files() -> None:
    """Make the key, the authority, two identities and the rules."""
    glue_key("new", "plant.key")
    glue_key("authority", "plant.authority", "--key", "plant.key")
    for name in ("kitchen", "guest"):
        glue_key("identity", name)
        glue_key("admit", f"{name}.identity", "--authority", "plant.authority")
    rules = [
        {"who": "#", "may": ["publish", "subscribe"], "topics": ["home/#"]},
        {"who": "guest", "may_not": ["publish"], "topics": ["#"]},
    ]
    with open("rules.json", "w") as file:
        json.dump(rules, file)
    glue_key("rules", "rules.json", "--authority", "plant.authority", "--output", "plant.rules")


def main() -> None:
    """Let the guest listen, and refuse what it may not say."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_files()
        with (
            glue.Endpoint(key="plant.key", identity="kitchen.identity", policy="plant.rules") as kitchen,
            glue.Endpoint(key="plant.key", identity="guest.identity", policy="plant.rules") as guest,
        ):
            lamps = guest.subscribe("home/lamp")
            kitchen.wait_for_subscribers("home/lamp", 1, timeout=5)
            kitchen.publish("home/lamp", "on")
            print(next(lamps).payload)
            try:
                guest.publish("home/lamp", "off")
            except glue.ForbiddenError as error:
                print(error)
        os.chdir("/")


if __name__ == "__main__":
    main()
