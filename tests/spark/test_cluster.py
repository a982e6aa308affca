"""The same job by `spark-submit` on a real cluster: a standalone master and two workers, all on loopback.

glue is installed in none of their Pythons: the driver has its wheel on the path, the executors are sent it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from spark.java import ensure_java
from tests.spark.captures import GOLDEN, frame, pcap
from tests.spark.conftest import BRIEF

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
PATIENCE = 60.0  # seconds for the master to listen and for the workers to join it
JOB_PATIENCE = 400.0  # three Javas start for it

JOB = """
import sys
from spark.session import session
spark = session("cluster test")
frames = spark.read.format("pcap").option("partitionBytes", 1_000_000).load(sys.argv[1])
hosts = frames.rdd.mapPartitions(lambda rows: [(__import__("os").getcwd(), sum(1 for _ in rows))]).collect()
import spark as package
print("RESULT", frames.count(), len({where for where, _ in hosts}), package.__file__)
spark.stop()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def python_without_glue(directory: Path) -> Path:
    """A Python with all packages of this one but glue: where a path file leads, no other path files are heeded."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{HOME.parent}\n")
    python = directory / "bin" / "python"
    assert subprocess.run([python, "-c", "import glue"], cwd="/", capture_output=True, check=False).returncode
    return python


class Cluster:
    """A standalone master and workers, each a process of this machine, with one core each."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        ensure_java()
        self.environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python_without_glue(directory / "python")),
            "PYTHONPATH": "",
            "SPARK_NO_DAEMONIZE": "1",
            "JAVA_TOOL_OPTIONS": BRIEF,
        }
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        self._until("master", "I have been elected leader")
        for name in ("one", "two"):
            work = directory / name
            work.mkdir()
            self._start("worker", "--cores", "1", "--memory", "1g", "--work-dir", str(work), "--webui-port", "0",
                        "--host", "127.0.0.1", self.url)  # fmt: skip
        self._until("master", "Registering worker", 2)

    def _start(self, kind: str, *arguments: str) -> None:
        log = self._stack.enter_context((self._directory / f"{kind}.log").open("ab"))
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}.{kind.title()}", *arguments]
        process = subprocess.Popen(
            command, env=self.environment, cwd=self._directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def _until(self, kind: str, text: str, times: int = 1) -> None:
        end = time.monotonic() + PATIENCE
        log = self._directory / f"{kind}.log"
        while log.read_text().count(text) < times:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two workers."""
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """glue's wheel, made from a copy of the sources so that these stay as they are."""
    copy = tmp_path / "sources"
    copy.mkdir()
    files = subprocess.run(["git", "ls-files", "glue", "spark"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in ["setup.cfg", "pyproject.toml", "README.md", "LICENSE", *files.stdout.split()]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(copy)]
    subprocess.run(command, check=True)
    return next(tmp_path.glob("glue_lan-*.whl"))


@pytest.mark.timeout(600)
def test_two_workers_read_one_capture_with_the_wheel_alone(tmp_path: Path, cluster: Cluster, wheel: Path) -> None:
    frames = [frame(datagram) for datagram in GOLDEN.values()]
    (tmp_path / "trace.pcap").write_bytes(pcap(frames * 1000))
    (tmp_path / "job.py").write_text(JOB)
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--py-files", str(wheel)]
    command += ["--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        [*command, str(tmp_path / "job.py"), str(tmp_path / "trace.pcap")],
        env={**cluster.environment, "PYTHONPATH": str(wheel)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=JOB_PATIENCE,
        check=False,
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert results, done.stdout + done.stderr
    _, rows, workers, package = results[0].split()
    assert (int(rows), int(workers)) == (1000 * len(frames), 2)
    assert ".whl" in package
