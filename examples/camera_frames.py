"""Camera frames as arrays with properties, and a slow display that asks for less. Run it in one terminal."""

from __future__ import annotations

import queue

import numpy

import glue

FRAMES = 40


def main() -> None:
    """Publish frames and a report; one program gets all, the display the latest at most five times a second."""
    archive: queue.Queue[glue.Message] = queue.Queue()
    display: queue.Queue[glue.Message] = queue.Queue()
    with glue.Endpoint("viewer") as viewer:
        viewer.subscribe(["camera/+/frame", "camera/+/report"], archive.put)  # two patterns, one subscription
        viewer.subscribe("camera/+/frame", display.put, max_rate=5)
        with glue.Endpoint("camera") as camera:  # it starts last, so it knows both subscriptions from the start
            run(camera, archive, display)


def run(camera: glue.Endpoint, archive: queue.Queue[glue.Message], display: queue.Queue[glue.Message]) -> None:
    """Publish, and print what came."""
    own = camera.subscribe("camera/#", local=False)  # what other cameras publish
    for number in range(FRAMES):
        frame = numpy.full((48, 64), number, numpy.uint8)
        camera.publish("camera/1/frame", frame, properties={"exposure-ms": str(8 + number % 2)})
    camera.publish("camera/1/report", {"frames": FRAMES}, codec="msgpack")
    camera.flush(timeout=10)

    messages = [archive.get(timeout=5) for _ in range(FRAMES + 1)]
    last, report = messages[-2], messages[-1]
    print("archived:", len(messages) - 1, last.payload.shape, last.payload.dtype, last.codec)
    print("exposure of the last frame:", last.properties["exposure-ms"])
    print("report:", report.payload, report.codec)
    frames = [display.get(timeout=5)]
    while frames[-1].payload[0, 0] < FRAMES - 1:
        frames.append(display.get(timeout=5))
    print("few frames displayed:", len(frames) < FRAMES / 2, "with the latest at the end")
    try:
        print(own.get(timeout=0))
    except TimeoutError:
        print("nothing of its own at the camera")


if __name__ == "__main__":
    main()
