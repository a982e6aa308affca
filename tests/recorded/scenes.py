"""The runs that are recorded: each a few seconds in which one kind of thing happens to a few endpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from glue import Message
from glue.core import PRIORITIES
from glue.simulation import Burst, Conditions, SimulatedEndpoint
from tests.recorded.story import Story


def calm() -> str:
    """Nothing goes wrong: all sizes, all classes, retained values, lifespans, and interests that come and go."""
    story = Story(1)
    a, b, c = (story.endpoint(name) for name in "abc")
    story.listen(b, "all/#")
    short = story.listen(c, "all/+/small")
    story.step(0.3)
    for number, size in enumerate((0, 1, 100, 1000, 1300, 1472, 5000, 40_000, 200_000)):
        a.publish(f"all/{number % 2}/small", bytes([number]) * size)
        b.publish("all/b", {"number": number, "text": "x" * number}, type="T")
    story.step(0.1, 3)
    for priority in PRIORITIES:
        story.stream(a, f"all/{priority}", 40, 3000, 0.004, priority=priority)
    story.stream(c, "all/best", 30, 900, 0.005, reliability="best-effort")
    a.publish_many("all/many", [b"%d" % number * 20 for number in range(300)])
    story.step(0.1, 3)
    story.ask("one", a, "all/0/small", b"asked")
    story.ask("nobody", a, "none", b"asked")
    for number in range(5):
        b.publish(f"all/kept/{number % 3}", b"kept %d" % number, retain=True)
    a.publish("all/brief", b"brief", lifespan=0.2)
    story.step(0.05, 2)
    short.close()
    late = story.endpoint("late")
    story.listen(late, "all/kept/+")
    story.listen(a, "#")
    story.step(0.5, 2)
    b.publish("all/kept/1", b"", retain=True)
    story.listen(c, "all/kept/#")
    story.step(0.5, 2)
    b.close()
    story.step(2.0, 6)
    return story.end()


def lossy() -> str:
    """Datagrams are lost, late, doubled and overtaken; near and far receivers, with and without parity."""
    story = Story(2)
    a, b = story.endpoint("a", parity=0.25), story.endpoint("b")
    near, far = story.endpoint("near"), story.endpoint("far")
    network = story.world.network
    for endpoint in (b, near, far):
        story.listen(endpoint, "s/#")
    story.step(0.5)
    network.set_conditions(Conditions(loss=0.03, duplicate=0.02, delay=0.001, jitter=0.002, reorder=0.02))
    network.set_conditions(Conditions(loss=0.06, delay=0.03, jitter=0.004), destination=far.host)
    network.set_conditions(Conditions(loss=0.02, delay=0.03), source=far.host)
    story.stream(a, "s/small", 400, 100, 0.005)
    story.stream(a, "s/large", 20, 60_000, 0.1)
    story.stream(b, "s/other", 150, 1500, 0.01)
    story.stream(b, "s/best", 150, 700, 0.01, reliability="best-effort")
    story.step(0.5, 4)
    burst = Conditions(burst=Burst(enter=0.02, leave=0.2), delay=0.012, jitter=0.001)
    network.set_conditions(burst, source=b.host)
    story.stream(b, "s/burst", 60, 20_000, 0.02)
    story.stream(far, "s/back", 100, 3000, 0.01)
    story.step(0.5, 4)
    network.clear_conditions()
    story.step(1.0, 3)
    return story.end()


def protected() -> str:
    """A far receiver that loses some: parity is chosen by loss and distance, and changes as they do."""
    story = Story(3)
    a, far = story.endpoint("a"), story.endpoint("far")
    story.listen(far, "s/#")
    story.step(0.5)
    network = story.world.network
    for loss in (0.0, 0.01, 0.05, 0.15, 0.0):
        network.set_conditions(Conditions(loss=loss, delay=0.02, jitter=0.001))
        story.stream(a, "s/large", 12, 50_000, 0.08)
        story.stream(a, "s/small", 50, 200, 0.02)
        story.step(0.5, 3)
    story.step(1.0, 2)
    return story.end()


def narrow() -> str:
    """A link that is too narrow, with a short queue: windows, classes and publishers that are refused."""
    story = Story(4, queue_limit=400_000)
    a, b, c = (story.endpoint(name) for name in "abc")
    story.listen(b, "s/#")
    story.listen(c, "s/#")
    story.step(0.5)
    narrow = Conditions(rate=3e6, queue=0.05, delay=0.002)
    story.world.network.set_conditions(narrow, destination=b.host)
    story.stream(a, "s/bulk", 300, 20_000, 0.004, priority="bulk")
    story.stream(a, "s/normal", 300, 4_000, 0.005)
    story.stream(a, "s/first", 100, 200, 0.02, priority="urgent")
    story.step(0.25, 12)
    story.world.network.set_conditions(Conditions(rate=2e6, queue=0.1, delay=0.001, loss=0.01), source=a.host)
    story.stream(a, "s/more", 200, 15_000, 0.005)
    story.step(0.5, 8)
    story.world.network.clear_conditions()
    story.step(1.0, 3)
    return story.end()


def slow() -> str:
    """Receivers that stop, that handle slowly, and that lose what the others get."""
    story = Story(5, receive_limit=300_000)
    a = story.endpoint("a", queue_limit=3_000_000)
    good, stopped, lossy, busy = (story.endpoint(name) for name in ("good", "stopped", "lossy", "busy"))
    for endpoint in (good, stopped, lossy):
        story.listen(endpoint, "s/#")
    story.listen(busy, "s/b", handling_time=0.02)
    story.listen(busy, "s/n", handling_time=0.01, policy="drop_oldest", limit=8)
    story.listen(good, "s/n", handling_time=0.03, policy="drop_newest", limit=8)
    story.listen(lossy, "s/n", handling_time=0.05, policy="disconnect", limit=30)
    story.step(0.5)
    story.world.network.set_conditions(Conditions(loss=0.2, delay=0.001), destination=lossy.host)
    story.stream(a, "s/n", 400, 2_000, 0.01)
    story.stream(a, "s/b", 150, 8_000, 0.02)
    story.step(0.5, 2)
    stopped.pause()
    story.step(0.25, 8)
    stopped.resume()
    story.step(0.5, 3)
    stopped.pause()
    story.stream(a, "s/flood", 300, 30_000, 0.005)
    story.step(1.0, 3)
    stopped.resume()
    story.step(1.0, 3)
    return story.end()


def lives() -> str:
    """Endpoints are cut off, crash, leave, come again, have one name, and wall clocks that are wrong."""
    story = Story(6, announce_interval=0.5, lease_intervals=3.0)
    a, b, c = (story.endpoint(name) for name in "abc")
    for endpoint in (b, c):
        story.listen(endpoint, "l/#")
    story.step(0.5)
    story.stream(a, "l/x", 900, 300, 0.02)
    story.stream(a, "l/kept", 20, 100, 0.5, retain=True)
    network = story.world.network
    network.partition([b.host])
    story.step(0.5, 5)
    network.heal()
    story.step(0.5, 3)
    network.block(a.host, c.host)
    story.step(0.5, 5)
    network.unblock(a.host, c.host)
    c.host.wall_offset = -3600.0
    c.restart()
    story.listen(c, "l/#")
    story.step(0.5, 3)
    story.endpoint("b")
    story.step(0.5, 3)
    b.close()
    a.pause()
    story.step(0.5, 5)
    a.resume()
    c.host.take_down()
    story.step(0.5, 4)
    c.host.bring_up()
    story.step(0.5, 4)
    a.crash()
    story.step(1.0, 3)
    a.restart()
    a.publish("l/again", b"again")
    story.step(1.0, 2)
    return story.end()


def many() -> str:
    """Twelve endpoints, whose interests change while all of them publish."""
    story = Story(7)
    all_ = [story.endpoint(f"e{number:02}") for number in range(12)]
    random = story.random
    patterns = ["#", "m/+", "m/#", "+/1", "m/2", "+/+", "n/#"]
    held = [story.listen(endpoint, random.choice(patterns)) for endpoint in all_ for _ in range(2)]
    story.world.network.set_conditions(Conditions(loss=0.02, delay=0.002, jitter=0.001))
    for _ in range(12):
        for endpoint in all_:
            topic = f"{random.choice('mn')}/{random.randrange(4)}"
            endpoint.publish(topic, bytes(random.randrange(2000)), retain=random.random() < 0.1)
        held.pop(random.randrange(len(held))).close()
        endpoint = random.choice(all_)
        held.append(story.listen(endpoint, random.choice([*patterns, f"m/{random.randrange(90)}"])))
        story.step(0.1)
    wide = all_[3]
    for number in range(150):
        story.listen(wide, f"wide/{number}/#")
    story.step(0.5)
    all_[0].publish("wide/77/x", b"wide")
    all_[5].close()
    story.step(1.0, 3)
    return story.end()


def damaged() -> str:
    """Bits flip in what is sent, and nobody minds but the counters."""
    story = Story(8)
    a, b, c = (story.endpoint(name) for name in "abc")
    story.listen(b, "d/#")
    story.listen(c, "#")
    story.world.network.set_conditions(Conditions(corrupt=0.1, loss=0.01, delay=0.001))
    story.step(0.5)
    story.stream(a, "d/x", 300, 400, 0.01)
    story.stream(b, "e/x", 40, 9000, 0.05)
    story.stream(c, "d/y", 40, 300, 0.05, retain=True)
    story.step(0.5, 6)
    story.world.network.clear_conditions()
    story.step(1.0, 2)
    return story.end()


def dialogue() -> str:
    """Questions and answers, one at a time, between two and then among three."""
    story = Story(9)
    a, b = story.endpoint("a"), story.endpoint("b")
    turns = iter(range(600))

    def answer(endpoint: SimulatedEndpoint, topic: str, _: Message) -> None:
        number = next(turns, None)
        if number is not None:
            endpoint.publish(topic, b"%d" % number + bytes(number % 50))

    a.subscribe("q/b", partial(answer, a, "q/a"))
    b.subscribe("q/a", partial(answer, b, "q/b"))
    story.listen(b, "q/a")
    story.step(0.5)
    a.publish("q/a", b"first")
    story.step(0.1, 3)
    story.world.network.set_conditions(Conditions(loss=0.05))
    story.step(0.2, 3)
    c = story.endpoint("c")
    story.listen(c, "q/#")
    story.step(0.5, 4)
    return story.end()


SCENES: dict[str, Callable[[], str]] = {
    scene.__name__: scene for scene in (calm, lossy, protected, narrow, slow, lives, many, damaged, dialogue)
}
