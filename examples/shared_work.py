"""Jobs for a group of workers, one of which closes halfway. Run it in one terminal; it holds all endpoints."""

from __future__ import annotations

import threading
import time
from collections import Counter

import glue

JOBS = 40


def main() -> None:
    """Publish jobs, let one worker leave, and show that every job was done."""
    done: Counter[int] = Counter()
    lock = threading.Lock()

    def work(message: glue.Message) -> None:
        time.sleep(0.002)
        with lock:
            done[message.payload] += 1

    with glue.Endpoint("office") as office, glue.Endpoint("worker-1") as one, glue.Endpoint("worker-2") as two:
        leaving = one.subscribe("jobs/#", work, group="workers")
        two.subscribe("jobs/#", work, group="workers")
        office.wait_for_subscribers("jobs/print", 2)
        for number in range(JOBS):
            office.publish("jobs/print", number)
            if number == JOBS // 2:
                leaving.close()
        reminder = office.publish("jobs/print", JOBS, delay=0.1)
        mistake = office.publish("jobs/print", -1, delay=0.1)
        print("cancelled:", mistake.cancel())
        while reminder.waiting:
            time.sleep(0.01)
        print("all handled:", office.flush(timeout=10))
        print("jobs done:", len(done))


if __name__ == "__main__":
    main()
