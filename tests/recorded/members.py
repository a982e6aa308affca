"""A recorded run of a member of a durable consumer: what keepers tell it, what it asks them, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

import orjson

from glue.consumers.membership import Membership
from glue.contract.heads import MalformedError
from glue.topics.bundle import MessageGroup

KEEPERS = ["a" * 16, "b" * 16, "c" * 16]
LINES = 70
"""Lines that stand in the record as they were."""


class Member:
    """A member, and keepers that tell it what a seed draws: mostly what is right."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now, self.lines = 0.0, list[str]()
        self.shares = self.numbers = 0
        self.open: list[tuple[str, int, int]] = []  # member, share, messages
        self.member = Membership("work", "o/#", ("f" * 16, 5), self._number, ["earliest"], True, self._fenced)

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _fenced(self) -> None:
        self.say("is fenced: what it has is void")

    def say(self, text: str) -> None:
        """Write down something with its time."""
        self.lines.append(f"{self.now:8.3f} {text}")

    def run(self, steps: int) -> str:
        """Let things happen; return the record."""
        acts: dict[Callable[[], None], int] = {
            self.advance: 8, self.where: 4, self.joined: 4, self.give: 8, self.handle: 8, self.fence: 1, self.wrong: 1,
        }  # fmt: skip
        for _ in range(steps):
            self.random.choices(list(acts), list(acts.values()))[0]()
        self.send(self.member.leave())
        text = repr(self.lines[LINES:]).encode()
        self.lines[LINES:] = [f"and {len(self.lines) - LINES} lines more, {crc32(text):08x}"]
        return "\n".join(self.lines) + "\n"

    def send(self, messages: list[tuple[str, bytes]]) -> None:
        """Write down what the member publishes."""
        for topic, payload in messages:
            told = payload.decode().strip().replace(KEEPERS[0], "A").replace("f" * 16, "F")
            self.say(f"to {topic[-1]}: {told}")

    def tell(self, keeper: str, head: dict[str, Any], groups: list[MessageGroup] | None = None) -> None:
        """Let a keeper tell something."""
        try:
            found = self.member.told(self.now, keeper, orjson.loads(orjson.dumps(head)), groups or [])
        except MalformedError as error:
            self.say(f"from {keeper[0]}: {head.get('tell')} is malformed: {error}")
            return
        facts = f"home {self.member.home[:1]}, joined {self.member.is_joined:d}, due {self.member.deadline:.3f}"
        self.say(f"from {keeper[0]}: {head}; {facts}")
        for taken in found:
            self.open.append((taken.member, taken.number, len(taken.group.payloads)))
            self.say(f"  takes share {taken.number} of {taken.publisher}, {taken.life}, again {taken.is_again:d}")

    # -------------------------------------------------------------------------------------------- acts

    def advance(self) -> None:
        """Time passes."""
        self.now += self.random.choice((0.001, 0.02, 0.1, 0.4, 0.4, 3.5))
        known = KEEPERS if self.random.random() < 0.9 else KEEPERS[:1]
        self.send(self.member.advance(self.now, known if self.random.random() < 0.95 else []))

    def where(self) -> None:
        """A keeper says where the home is."""
        home = self.random.choice(["", "", *KEEPERS[:2]])
        head = {
            "tell": "where",
            "home": home,
            "epoch": self.random.choice((1, 2)),
            "covers": self.random.random() < 0.6,
        }
        self.tell(self.random.choice(KEEPERS), head)

    def joined(self) -> None:
        """The home takes the member in."""
        if self.member.home:
            self.shares = 0
            head = {"tell": "joined", "member": self.member.member, "epoch": self.random.choice((1, 2))}
            self.tell(self.member.home, head)

    def give(self) -> None:
        """The home gives shares; now and then one is missing."""
        if not self.member.is_joined:
            return
        shares, groups = [], []
        for _ in range(self.random.choice((1, 2))):
            self.shares += 1 if self.random.random() < 0.97 else 2
            shares.append([self.shares, self.random.choice((0, 1)), "0" * 16, "publisher", 7])
            groups.append(MessageGroup("o/1", 1, 0, [b"x"] * self.random.choice((1, 3)), 1))
        epoch = self.member._epoch if self.random.random() < 0.95 else 99
        head = {"tell": "shares", "member": self.member.member, "epoch": epoch, "shares": shares}
        self.tell(self.member.home, head, groups)

    def handle(self) -> None:
        """The program is done with some messages, in any order."""
        for _ in range(self.random.choice((1, 4))):
            if self.open:
                member, share, count = self.random.choice(self.open[:3])
                self.member.finished(member, share, self.random.randint(1, count), self.random.random() < 0.9)
                if self.member.is_over(share):
                    self.open = [one for one in self.open if one[1] != share]

    def fence(self) -> None:
        """The home sends the member away."""
        if self.member.home:
            self.tell(self.member.home, {"tell": "fenced", "member": self.member.member})

    def wrong(self) -> None:
        """What is told is malformed, of another member, or by another keeper."""
        member = self.member.member
        keeper = self.member.home or KEEPERS[0]
        head: dict[str, Any] = self.random.choice([
            {"tell": "where", "home": 5}, {"tell": "where", "home": "x" * 17, "epoch": 1},
            {"tell": "where", "home": ""},
            {"tell": "joined", "member": "other", "epoch": 1}, {"tell": "nonsense", "member": member}, {},
            {"tell": "shares", "member": member, "epoch": self.member._epoch, "shares": [[1, 0, "o", "n", 1]]},
            {"tell": "joined", "member": member, "epoch": -1},
        ])  # fmt: skip
        self.tell(self.random.choice([keeper, KEEPERS[2]]), head)


MEMBERS: dict[str, Callable[[], str]] = {"member": lambda: Member(51).run(3000)}
