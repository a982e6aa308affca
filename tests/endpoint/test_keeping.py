"""Keepers and acknowledgements on disk: what a publisher is told, in virtual time, on threads and on a loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

import glue
import glue.aio
from glue.drivers.directory import FileDirectory
from glue.drivers.leader import ThreadDriver
from glue.endpoint.receipt import Receipt
from glue.simulation import Conditions, SimulatedEndpoint, World
from glue.simulation.consensus import SimulatedDisk
from glue.storage import JSON
from glue.storage.log import every_topic
from tests.support.event_loop import pair as aio_pair
from tests.support.event_loop import run
from tests.support.lan import PATIENCE, Lan, private_network


class Plant:
    """A publisher and keepers with disks."""

    def __init__(self, keepers: int = 1, replicas: int | None = None, loss: float = 0.0) -> None:
        self.world = World(4)
        self.world.network.set_conditions(Conditions(loss=loss))
        self.publisher = self.world.endpoint("publisher")
        self.disks = [SimulatedDisk(Random(number)) for number in range(keepers)]
        self.endpoints = [self.world.endpoint(f"keeper {number}") for number in range(keepers)]
        self.keepers = [
            endpoint.keep("kept/#", directory=disk, replicas=replicas)
            for endpoint, disk in zip(self.endpoints, self.disks, strict=True)
        ]
        self.world.run(3.0)

    def publish(self, payload: Any = "x", acks: Any = "disk", wait: float = 1.0, topic: str = "kept/t") -> Receipt:
        receipt = self.publisher.publish(topic, payload, receipt=True, acks=acks)
        self.world.run(wait)
        return receipt


def kept(keeper: glue.Keeper) -> list[bytes]:
    return [payload for _, record in keeper.log.read(every_topic, 0).records for payload in record.payloads]


def test_a_receipt_is_true_once_the_message_is_on_disk() -> None:
    plant = Plant()
    disk = plant.disks[0]
    receipt = plant.publish({"n": 1}, wait=0.0)
    assert not receipt.complete
    plant.world.run(1.0)
    assert bool(receipt)
    assert (receipt.durable, receipt.failure) == (["keeper 0"], "")
    disk.crash()
    plant.endpoints[0].restart()
    keeper = plant.endpoints[0].keep("kept/#", directory=disk)
    assert kept(keeper) == [b'{"n":1}']


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_replicas_and_numbers_wait_for_so_many_disks(loss: float) -> None:
    for replicas, numbers in ((None, (("disk", 1), ("replicas", 1), (3, 3))), (2, (("disk", 1), ("replicas", 2)))):
        plant = Plant(keepers=3, replicas=replicas, loss=loss)
        for acks, least in numbers:
            receipt = plant.publish(acks=acks, wait=5.0)
            assert receipt
            assert len(receipt.durable) >= least
        for acks in (4, 64):
            receipt = plant.publish(acks=acks)
            assert (receipt.complete, bool(receipt)) == (True, False)
            assert receipt.failure == f"{replicas or 3} of {acks} keepers of 'kept/t' with a disk are known"


def test_without_a_keeper_with_a_disk_a_receipt_is_false_at_once() -> None:
    plant = Plant()
    memory = plant.world.endpoint("memory").keep("#")
    plant.world.run(1.0)
    receipt = plant.publish(topic="other", wait=0.1)
    assert receipt.complete
    assert not receipt
    assert receipt.failure == "0 of 1 keepers of 'other' with a disk are known"
    assert kept(memory) == [b'"x"']


def test_a_keeper_that_leaves_ends_the_waiting() -> None:
    plant = Plant(keepers=2)
    plant.endpoints[1].pause()
    receipt = plant.publish(acks=2)
    outcomes = [receipt.complete]
    plant.endpoints[1].crash()
    plant.world.run(30.0)
    assert [*outcomes, receipt.complete] == [False, True]
    assert receipt.failure.startswith("keeper keeper 1 left")
    assert receipt.durable == ["keeper 0"]


def test_a_full_disk_refuses_with_its_cause_and_goes_on_when_there_is_room() -> None:
    plant = Plant()
    assert plant.publish(1)
    plant.disks[0].is_full = True
    for value in (2, 3):
        receipt = plant.publish(value, wait=0.3)
        assert (receipt.complete, bool(receipt)) == (True, False)
        assert receipt.failure.startswith("keeper keeper 0 refused: no room on the disk")
    assert "no room" in plant.keepers[0].failure
    assert kept(plant.keepers[0]) == [b"1"], "what is stored can be read"
    plant.disks[0].is_full = False
    plant.world.run(1.0)
    assert plant.publish(4)
    assert plant.keepers[0].failure == ""
    assert kept(plant.keepers[0]) == [b"1", b"4"]


def test_after_a_failed_sync_a_keeper_acknowledges_nothing_more() -> None:
    plant = Plant()
    assert plant.publish(1)
    plant.disks[0].fails_to_sync = True
    for value in (2, 3):
        receipt = plant.publish(value)
        assert (receipt.complete, bool(receipt)) == (True, False)
        assert "the disk refused" in receipt.failure
    assert kept(plant.keepers[0]) == [b"1"]
    assert plant.endpoints[0].statistics["endpoint"]["storage failures"] == 1


def test_an_acknowledgement_that_was_sent_before_a_keeper_knew_of_the_wish_comes_later() -> None:
    plant = Plant()
    plant.publisher.publish("kept/t", "before")
    plant.world.run(1.0)
    receipt = plant.publish("after")
    assert receipt
    assert kept(plant.keepers[0]) == [b'"before"', b'"after"']


def test_keepers_of_one_directory_share_a_log_and_a_message_is_kept_once() -> None:
    plant = Plant()
    other = plant.endpoints[0].keep("kept/t", directory=plant.disks[0])
    plant.world.run(1.0)
    assert plant.publish(1)
    assert other.log is plant.keepers[0].log
    assert kept(other) == [b"1"]
    plant.keepers[0].close()
    plant.world.run(1.0)
    assert plant.publish(2)
    other.close()
    other.close()
    plant.world.run(1.0)
    assert plant.publish(3).failure.startswith("0 of 1 keepers")


def test_an_endpoint_keeps_its_own_messages_too() -> None:
    plant = Plant()
    receipt = plant.endpoints[0].publish("kept/own", b"mine", receipt=True, acks="disk")
    plant.world.run(1.0)
    assert receipt
    assert receipt.durable == ["keeper 0"]


def test_forged_acknowledgements_are_counted_and_believed_of_their_sender_alone() -> None:
    plant = Plant()
    plant.publish(1)
    forger: SimulatedEndpoint = plant.world.endpoint("forger")
    plant.world.run(3.0)
    wrong: list[Any] = [
        3, [], {"durable": 3}, {"durable": [["kept/t", 0, 9]]}, {"durable": [[1, 1, 2]]}, {"refused": [["kept/t", 1]]},
        {"durable": [["kept/t", True, 2]]},
    ]  # fmt: skip
    for message in wrong:
        plant.publisher._core.durability.take(forger.id, message)
    assert plant.publisher.statistics["endpoint"]["malformed acknowledgements"] == len(wrong)
    assert plant.publish(2, acks=2).failure


def test_properties_and_codecs_are_kept_and_payloads_as_they_were_encoded() -> None:
    plant = Plant()
    plant.publisher.publish("kept/t", 1, properties={"unit": "m"}, receipt=True, acks="disk")
    plant.publisher.publish("kept/t", b"raw", type="kind")
    plant.world.run(1.0)
    first, second = (record for _, record in plant.keepers[0].log.read(every_topic, 0).records)
    assert (first.properties, first.payloads, first.codec, first.flags) == ({"unit": "m"}, [b"1"], None, JSON)
    assert (second.properties, second.payloads, second.type, second.flags) == ({}, [b"raw"], "kind", 0)


def test_mistakes_of_the_caller_raise() -> None:
    plant = Plant()
    publish = plant.publisher.publish
    for acks in (0, 65, "all", True, 1.0):
        with pytest.raises(glue.ConfigurationError, match="acks="):
            publish("kept/t", 1, receipt=True, acks=acks)  # type: ignore[call-overload]
    with pytest.raises(glue.ConfigurationError, match="receipt=True"):
        publish("kept/t", 1, acks="disk")  # type: ignore[call-overload]
    keep = plant.publisher.keep
    for options in ({"age": "30x"}, {"size": -1}, {"count": 0}, {"replicas": 0}, {"size": "GB"}, {"age": True}):
        with pytest.raises(glue.ConfigurationError, match=f"{next(iter(options))}="):
            keep("t", **options)
    with pytest.raises(glue.TopicError):
        keep("$glue/#")
    with pytest.raises(glue.TopicError):
        keep("a/#/b")


def test_damage_on_the_disk_is_told_as_it_is_found(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant()
    for number in range(4):
        plant.publish(b"%d" % number * 100)
    disk, endpoint = plant.disks[0], plant.endpoints[0]
    name = next(name for name in disk.names() if name.endswith(".log"))
    endpoint.crash()
    disk.flip(name, 8 * disk.size(name) // 2)
    endpoint.restart()
    endpoint.keep("kept/#", directory=disk)
    assert endpoint.statistics["endpoint"]["damaged places on disk"] == 1
    assert [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()] == [
        "keeper keeper 0: 1 damaged places on its disk; what was there is gone here"
    ]
    disk.flip(name, 8 * disk.size(name) - 400)
    plant.publisher.subscribe("kept/#", start="earliest")
    plant.world.run(1.0)
    plant.publish("more")
    assert endpoint.statistics["endpoint"]["damaged places on disk"] == 2


# ------------------------------------------------------------------------------------------ on real sockets


def test_a_stream_is_acknowledged_in_order_and_found_again_after_a_restart(tmp_path: Path) -> None:
    lan = Lan()
    with lan.make("keeper") as keeper, lan.make("publisher") as publisher:
        kept_here = keeper.keep("kept/#", data_dir=tmp_path / "log", size="1GB", age="30d")
        assert publisher.wait_for_keepers("kept/t", 1, PATIENCE)
        counts = list(publisher.publish_durable("kept/t", [b"%d" % number for number in range(500)], outstanding=100))
        assert counts == sorted(counts)
        assert counts[-1] == 500
        receipt = publisher.publish("kept/t", {"a": 1}, receipt=True, acks="replicas")
        assert receipt.wait(PATIENCE)
        assert receipt.durable == ["keeper"]
        assert kept_here.log.durable == 501
        with pytest.raises(glue.NotDurableError, match="0 messages on 'other'"):
            list(publisher.publish_durable("other", [b"1"]))
        with pytest.raises(glue.StorageError, match="another process uses it"):
            publisher.keep("t", data_dir=tmp_path / "log")
    with lan.make("keeper") as keeper:
        again = keeper.keep("kept/#", data_dir=tmp_path / "log")
        (tmp_path / "link").symlink_to(tmp_path / "log")
        assert keeper.keep("t", data_dir=f"{tmp_path}/link/").log is again.log
        wrong: Any
        for wrong in ("", 5):
            with pytest.raises(glue.ConfigurationError, match="expected the path of a directory"):
                keeper.keep("t", data_dir=wrong)
        assert kept(again) == [*(b"%d" % number for number in range(500)), b'{"a":1}']


def test_keepers_that_begin_at_once_share_the_log_of_a_directory_and_a_cancelled_one_leaves_it_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open = threading.Event()

    async def main() -> None:
        async with glue.aio.Endpoint("keeper", **private_network()) as endpoint:
            cancelled = asyncio.ensure_future(endpoint.keep("c/#", data_dir=tmp_path))
            await asyncio.sleep(0)
            cancelled.cancel()
            one, other = await asyncio.gather(*(endpoint.keep(f"{name}/#", data_dir=tmp_path) for name in "ab"))
            assert (cancelled.cancelled(), one.log is other.log) == (True, True)
            open_log: Any = endpoint._open_log

            def open_slowly(*given: Any) -> Any:
                may_open.wait(PATIENCE)
                return open_log(*given)

            monkeypatch.setattr(endpoint, "_open_log", open_slowly)
            opening = asyncio.ensure_future(endpoint.keep("d/#", data_dir=tmp_path / "d"))
            await asyncio.sleep(0)
        may_open.set()
        with pytest.raises(glue.ClosedError):
            await opening

    run(main())
    for directory in (tmp_path, tmp_path / "d"):
        FileDirectory(directory).close()


def test_threads_that_begin_and_end_keepers_at_once_share_the_log_of_a_directory(tmp_path: Path) -> None:
    with glue.Endpoint("keeper", **private_network()) as endpoint, ThreadPoolExecutor(4) as threads:
        keepers = [*threads.map(lambda name: endpoint.keep(f"{name}/#", data_dir=tmp_path), "abcd")]
        assert len({id(one.log) for one in keepers}) == 1
        assert {*endpoint._keepers} == {*keepers}
        [*threads.map(glue.Keeper.close, keepers)]
        assert endpoint._keepers == ()


def test_a_keeper_that_another_thread_begins_while_its_endpoint_closes_leaves_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with glue.Endpoint("keeper", **private_network()) as endpoint:
        endpoint.keep("a/#", data_dir=tmp_path / "a")
        close: Any = ThreadDriver.close

        def begin_and_close(*given: Any) -> None:
            endpoint.keep("b/#", data_dir=tmp_path / "b")
            close(*given)

        monkeypatch.setattr(ThreadDriver, "close", begin_and_close)
    for name in "ab":
        FileDirectory(tmp_path / name).close()


def test_a_loop_keeps_and_waits_likewise(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio_pair() as (keeper, publisher):
            kept_here = await keeper.keep("kept/#", data_dir=tmp_path / "log")
            assert await publisher.wait_for_keepers("kept/t", 1, PATIENCE)
            counts = [count async for count in publisher.publish_durable("kept/t", [b"x"] * 300, outstanding=50)]
            assert counts[-1] == 300
            receipt = await publisher.publish("kept/t", b"y", receipt=True, acks=1)
            async with asyncio.timeout(PATIENCE):
                assert await receipt
            assert kept_here.log.durable == 301
            own = await keeper.publish("kept/t", b"z", receipt=True, acks="disk")
            async with asyncio.timeout(PATIENCE):
                assert await own

    run(main())
