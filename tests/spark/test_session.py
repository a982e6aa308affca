"""How a session is made: which settings a machine, a cluster and a terminal get, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.storagelevel import StorageLevel

from spark import session as module
from spark.session import (
    ADAPTIVE,
    BRIEF_JAVA_OPTIONS,
    JAVA_OPTIONS,
    LOCAL_SETTINGS,
    PARTITIONS,
    SMALL_BYTES,
    forget,
    remember,
    session,
    warm,
)

CORES = 3
JAVA = "spark.driver.extraJavaOptions"
BAR = "spark.ui.showConsoleProgress"


class Maker:
    """What makes sessions, as PySpark has it; notes what it was asked for."""

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.builder = self
        self.settings: dict[str, Any] = {}
        self.later: dict[str, str] = {}
        self.sources: list[str] = []
        self.is_made = False
        self._during = during

    def appName(self, name: str) -> Maker:  # noqa: N802 (Spark's name)
        self.name = name
        return self

    def config(self, *, map: dict[str, Any]) -> Maker:
        self.settings = map
        return self

    def getOrCreate(self) -> Any:  # noqa: N802
        self._during()
        self.is_made = True
        context = SimpleNamespace(
            master=self.settings.get("spark.master"), defaultParallelism=CORES,
            getConf=lambda: SimpleNamespace(contains=self.settings.__contains__),
        )  # fmt: skip
        sources = SimpleNamespace(register=lambda source: self.sources.append(source.name()))
        return SimpleNamespace(
            sparkContext=context, dataSource=sources, conf=SimpleNamespace(set=self.later.__setitem__)
        )


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Maker]]:
    """Makes a session with the given arguments, and returns what was asked for."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    java = Mock()
    monkeypatch.setattr(module, "ensure_java", java)

    def made(during: Callable[[], object] = lambda: None, **arguments: Any) -> Maker:
        maker = Maker(during)
        java.reset_mock()
        monkeypatch.setattr(module, "SparkSession", maker)
        session("a name", **arguments)
        assert java.called == ("PYSPARK_GATEWAY_PORT" not in os.environ)
        return maker

    yield made
    os.environ.pop("PYSPARK_PYTHON", None)


def test_a_machine_alone_gets_all_its_cores_on_loopback(make: Callable[..., Maker]) -> None:
    made = make()
    assert made.name == "a name"
    assert made.settings["spark.master"] == "local[*,4]"
    assert made.settings.items() >= LOCAL_SETTINGS.items()
    assert made.sources == ["pcap", "mcap"]
    assert made.later == {PARTITIONS: str(2 * CORES)}
    assert os.environ["PYSPARK_PYTHON"]


def test_a_cluster_that_is_named_keeps_its_own_place_and_partitions(make: Callable[..., Maker]) -> None:
    made = make(master="spark://there:7077")
    assert made.settings["spark.master"] == "spark://there:7077"
    assert not made.settings.keys() & LOCAL_SETTINGS.keys()
    assert made.later == {PARTITIONS: "200"}
    assert "PYSPARK_PYTHON" not in os.environ
    assert all(option in made.settings[JAVA] for option in JAVA_OPTIONS)


def test_what_spark_submit_has_started_is_only_told_where_the_packages_are(
    make: Callable[..., Maker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    connected = Mock()
    monkeypatch.setattr(module, "SparkContext", SimpleNamespace(_ensure_initialized=connected))
    for given, path in (("file:/a/glue.whl,,/b/more.zip", "glue.whl:more.zip"), ("", None), (None, None)):
        monkeypatch.setattr(module, "SparkConf", lambda given=given: {"spark.submit.pyFiles": given})
        connected.reset_mock()
        made = make()
        assert connected.called
        assert made.settings.get("spark.executorEnv.PYTHONPATH") == path
        assert not made.settings.keys() & {"spark.master", JAVA, *LOCAL_SETTINGS}
    assert made.settings["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("size", "options", "later"),
    [
        (None, JAVA_OPTIONS, {PARTITIONS: "6"}),
        (1, BRIEF_JAVA_OPTIONS, {PARTITIONS: "3", ADAPTIVE: "false"}),
        (SMALL_BYTES, BRIEF_JAVA_OPTIONS, {PARTITIONS: "3", ADAPTIVE: "false"}),
        (SMALL_BYTES + 1, JAVA_OPTIONS, {PARTITIONS: "6", ADAPTIVE: "true"}),
        (512 << 20, JAVA_OPTIONS, {PARTITIONS: "8", ADAPTIVE: "true"}),
        ((512 << 20) + 1, JAVA_OPTIONS, {PARTITIONS: "9", ADAPTIVE: "true"}),
    ],
)
def test_java_and_the_plans_suit_the_size(
    make: Callable[..., Maker], size: int | None, options: tuple[str, ...], later: dict[str, str]
) -> None:
    made = make(size=size)
    assert made.settings[JAVA].split()[1:] == list(options)
    assert made.later == later


def test_settings_of_the_caller_come_before_all_others(make: Callable[..., Maker]) -> None:
    made = make(settings={"spark.ui.enabled": "true", PARTITIONS: "7", "spark.master": "local[1]"})
    assert (made.settings["spark.ui.enabled"], made.settings["spark.master"]) == ("true", "local[1]")
    assert made.later == {}


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_bar_is_for_terminals_unless_it_is_asked_for(
    make: Callable[..., Maker], is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: is_terminal))
    assert make().settings[BAR] == str(is_terminal).lower()
    assert make(progress=True).settings[BAR] == "true"
    assert make(progress=False).settings[BAR] == "false"


def test_ctrl_c_waits_until_java_has_started(make: Callable[..., Maker]) -> None:
    before, done = signal.getsignal(signal.SIGINT), list[bool]()

    def during() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        make(during)
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is before

    def fail() -> None:
        raise OSError("Java does not start")

    with pytest.raises(OSError, match="Java does not start"):
        make(fail)
    assert signal.getsignal(signal.SIGINT) is before, "also after a start that failed"


def test_sparks_own_handler_of_ctrl_c_stays_and_a_thread_needs_none(make: Callable[..., Maker]) -> None:
    before, own = signal.getsignal(signal.SIGINT), Mock()
    try:
        make(lambda: signal.signal(signal.SIGINT, own))
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    made = list[Maker]()
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    assert [one.is_made for one in made] == [True]


@pytest.mark.parametrize(
    ("master", "adaptive", "is_checkpoint"),
    [("local[2]", "false", True), ("local[2]", "true", False), ("spark://a:1", "false", False), (None, "false", False)],
)
def test_rows_of_small_captures_are_a_checkpoint(master: str | None, adaptive: str, is_checkpoint: bool) -> None:
    table = Mock()
    table.sparkSession.sparkContext.master = master
    table.sparkSession.conf.get = lambda name, default: {ADAPTIVE: adaptive}.get(name, default)
    kept = remember(table)
    level = StorageLevel.MEMORY_AND_DISK
    if is_checkpoint:
        table.localCheckpoint.assert_called_once_with(eager=False, storageLevel=level)
        assert kept is table.localCheckpoint.return_value
    else:
        table.persist.assert_called_once_with(level)
        assert kept is table.persist.return_value


def test_rows_are_released_in_the_way_that_they_were_kept() -> None:
    for name in ("LogicalRDD", "Project"):
        table = Mock()
        plan = table._jdf.queryExecution().logical()
        plan.nodeName.return_value = name
        forget(table)
        assert table.unpersist.called == (name == "Project")
        assert plan.rdd().unpersist.call_args_list == [((False,),)] * (name == "LogicalRDD")


def test_workers_start_beside_and_a_session_that_ends_meanwhile_is_no_error() -> None:
    asked, over = list[tuple[int, int, bool]](), threading.Event()

    def numbers(count: int, *, numPartitions: int) -> Any:  # noqa: N803 (Spark's name)
        asked.append((count, numPartitions, threading.current_thread().daemon))
        over.set()
        raise ConnectionError

    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=CORES), range=numbers)
    warm(spark)
    assert over.wait(60)
    assert asked == [(CORES, CORES, True)]
