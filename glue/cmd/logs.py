"""The logs of a command: lines for people or, with `--log-json`, one JSON object a line; what is lost is logged, too.

SIGUSR1 makes the logs of a running command one level more talkative, SIGUSR2 one level less.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}

LOSS_INTERVAL = 10.0
"""Seconds between two looks at the counters: each cause has at most one line in this time."""

LOSSES = ("dropped", "refused", "malformed", "lost", "missed", "forged", "unknown", "too many", "expired", "failed")
"""Words in the names of counters that tell of something dropped or refused."""

_logger = logging.getLogger("glue")


def add_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of logs to a group or a parser."""
    parser.add_argument("--log-level", choices=tuple(LEVELS), default="warning", help="(default: %(default)s)")
    parser.add_argument("--log-json", action="store_true", help="log one JSON object a line")


class JsonFormatter(logging.Formatter):
    """A record as a JSON object: `time` (seconds since 1970), `level`, `logger`, `message`, perhaps `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def begin(prog: str, arguments: argparse.Namespace) -> None:
    """Set up the logs of a command on the standard error output."""
    handler = logging.StreamHandler()
    as_json = getattr(arguments, "log_json", False)
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter(f"{prog}: %(message)s"))
    level = LEVELS[getattr(arguments, "log_level", "warning")]
    logging.basicConfig(handlers=[handler], level=level)
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, lambda number, frame: _shift(1))
        signal.signal(signal.SIGUSR2, lambda number, frame: _shift(-1))


def _shift(steps: int) -> None:
    """Make the logs more talkative, or less."""
    order = list(LEVELS.values())
    root = logging.getLogger()
    nearest = min(range(len(order)), key=lambda place: abs(order[place] - root.level))
    root.setLevel(order[max(0, min(nearest + steps, len(order) - 1))])


@contextmanager
def losses_logged(statistics: Callable[[], Mapping[str, Mapping[str, int]]]) -> Iterator[None]:
    """Log within the block what the counters tell of drops and refusals, each cause at most once in ten seconds.

    A block that ends sooner logs nothing: its own end makes some of these counts.
    """
    ends = threading.Event()
    log = LossLog()

    def work() -> None:
        while not ends.wait(LOSS_INTERVAL):
            log.look(statistics())

    thread = threading.Thread(target=work, name="glue losses", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


class LossLog:
    """Compares counters with the previous counters, and logs each counter of losses that has grown."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], int] = {}

    def look(self, statistics: Mapping[str, Mapping[str, int]]) -> None:
        """Log the counters of losses that have grown, by cause."""
        for layer, counters in statistics.items():
            for cause, count in counters.items():
                new = count - self._before.get((layer, cause), 0)
                if new > 0 and any(word in cause for word in LOSSES):
                    fields = {"layer": layer, "cause": cause, "count": new, "total": count}
                    _logger.warning("%s: %s: %d (%d in all)", layer, cause, new, count, extra={"fields": fields})
                    self._before[layer, cause] = count


def end() -> None:
    """Give the signals back their usual meaning."""
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
