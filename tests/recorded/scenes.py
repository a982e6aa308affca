"""The runs that are recorded: each a few seconds in which one kind of thing happens to a few endpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from glue import GlueError, Message
from glue.endpoint.core import PRIORITIES
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
    story.stream(a, "s/small", 250, 100, 0.005)
    story.stream(a, "s/large", 12, 60_000, 0.1)
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
    for loss in (0.0, 0.004, 0.01, 0.05, 0.15, 0.4, 0.0):
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
    story.stream(a, "s/bulk", 160, 20_000, 0.004, priority="bulk")
    story.stream(a, "s/normal", 300, 4_000, 0.005)
    story.stream(a, "s/first", 100, 200, 0.02, priority="urgent")
    story.stream(a, "s/brief", 250, 3_000, 0.01, lifespan=0.04)
    story.stream(c, "s/loose", 300, 1_000, 0.003, reliability="best-effort", priority="high")
    story.step(0.25, 12)
    story.world.network.set_conditions(Conditions(rate=2e6, queue=0.1, delay=0.001, loss=0.01), source=a.host)
    story.stream(a, "s/more", 120, 15_000, 0.005)
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
    """Eight endpoints, whose interests change while all of them publish."""
    story = Story(7)
    all_ = [story.endpoint(f"e{number:02}") for number in range(8)]
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


def overtaken() -> str:
    """Datagrams overtake one another and come twice: best effort is delivered as it comes, the rest in order."""
    story = Story(10)
    a, b, c = (story.endpoint(name) for name in "abc")
    story.listen(b, "o/#")
    story.listen(c, "o/best")
    story.step(0.3)
    wild = Conditions(loss=0.05, duplicate=0.2, reorder=0.3, reorder_delay=0.01, delay=0.002, jitter=0.006)
    story.world.network.set_conditions(wild)
    story.stream(a, "o/best", 500, 120, 0.002, reliability="best-effort")
    story.stream(a, "o/best/large", 60, 4000, 0.015, reliability="best-effort")
    story.stream(a, "o/x", 400, 500, 0.002)
    story.stream(b, "o/best", 300, 80, 0.003, reliability="best-effort", retain=True)
    story.step(0.25, 4)
    for _ in range(10):
        a.publish_many("o/many", [bytes(random_size) for random_size in story.random.choices(range(900), k=25)])
        story.step(0.05)
    story.world.network.clear_conditions()
    story.step(1.0, 4)
    return story.end()


def leaving() -> str:
    """Receivers come, leave, crash and change what they want in the midst of what is sent to several of them."""
    story = Story(11, announce_interval=0.3, lease_intervals=3.0)
    a = story.endpoint("a")
    others = [story.endpoint(f"r{number}") for number in range(6)]
    held = {endpoint: story.listen(endpoint, "l/#") for endpoint in others}
    story.step(0.4)
    story.world.network.set_conditions(Conditions(loss=0.08, delay=0.004, jitter=0.001, rate=8e6, queue=0.05))
    story.stream(a, "l/x", 500, 700, 0.01)
    story.stream(a, "l/large", 60, 40_000, 0.08)
    for number, what in enumerate(("close", "crash", "unsubscribe", "pause", "restart", "close")):
        for letter in "pq":
            story.ask(f"{letter}{number}", a, "l/asked", bytes(6000), lifespan=0.5 if letter == "q" else None)
        endpoint = others[number]
        if what == "unsubscribe":
            held[endpoint].close()
            story.listen(endpoint, "l/asked")
        elif what == "restart":
            endpoint.restart()
            story.listen(endpoint, "l/+")
        else:
            getattr(endpoint, what)()
        story.step(0.2, 3)
    others[3].resume()
    story.ask("last", a, "l/asked", b"last", priority="high")
    story.step(0.5, 4)
    story.world.network.clear_conditions()
    story.step(1.0, 4)
    return story.end()


def limited() -> str:
    """Limits are met: too many interests, too large messages, full queues, many retained values."""
    story = Story(12, message_limit=60_000, queue_limit=80_000, receive_limit=40_000)
    a, b = story.endpoint("a"), story.endpoint("b")
    story.listen(b, "x/#", handling_time=0.004)
    story.listen(b, "y/#", handling_time=0.01, policy="drop_oldest", limit=5)
    wide = [b.subscribe(f"wide/{number:04}/{'w' * 200}") for number in range(400)]
    story.step(0.5, 2)
    for subscription in wide[:390]:
        subscription.close()
    story.step(0.5)
    for number in range(300):
        b.subscribe(f"again/{number:04}/{'w' * 230}/+")
    story.step(0.5)
    for size in (59_000, 60_000, 60_001, 100_000):
        try:
            a.publish("x/large", bytes(size))
        except GlueError as error:
            story.say(str(error))
        story.step(0.05)
    story.stream(a, "x/much", 300, 3000, 0.002)
    story.stream(a, "y/much", 200, 500, 0.003, priority="high")
    for number in range(400):
        a.publish(f"kept/{number}", bytes(20), retain=True)
        if number % 20 == 0:
            story.world.run(0.02)
    story.step(0.5, 4)
    story.listen(story.endpoint("late"), "kept/#")
    story.step(1.0, 4)
    return story.end()


SCENES: dict[str, Callable[[], str]] = {
    scene.__name__: scene
    for scene in (calm, lossy, protected, narrow, slow, lives, many, damaged, dialogue, overtaken, leaving, limited)
}
