"""A ring on an interface that is not there says so, and keeps nothing open."""

from __future__ import annotations

import os
import sys

import pytest

from glue import GlueError
from glue.capture.ring import Ring, is_available

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs Linux, and root")


def test_an_interface_that_is_not_there_is_named() -> None:
    assert not is_available("nothere0")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GlueError, match="cannot capture on nothere0: "):
        Ring("nothere0", 37320)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_ring_that_is_closed_keeps_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    try:
        ring = Ring("lo", 37320)
    except PermissionError:
        pytest.skip("capturing is not permitted here")
    assert ring.count_drops() == 0
    ring.close()
    assert len(os.listdir("/proc/self/fd")) == before
