"""A lamp that answers, and a program that asks it. Run it in one terminal; both endpoints are in this process."""

from __future__ import annotations

import glue


def main() -> None:
    """Set the lamp, read it, and ask for something that it refuses."""
    state = {"on": False}
    with glue.Endpoint("lamp") as lamp, glue.Endpoint("switch") as switch:

        @lamp.responder("light/+/set")
        def set_light(request: glue.Request) -> dict[str, bool]:
            if not isinstance(request.payload, dict) or "on" not in request.payload:
                raise ValueError("expected {'on': true} or {'on': false}")
            state["on"] = bool(request.payload["on"])
            return state

        switch.wait_for_responders("light/kitchen/set")
        print(switch.request("light/kitchen/set", {"on": True}, timeout=2))
        for reply in switch.request_all("light/kitchen/set", {"on": False}, timeout=2):
            print(reply.responder, reply.payload)
        try:
            switch.request("light/kitchen/set", "on")
        except glue.RemoteError as error:
            print(error)
        try:
            switch.request("light/cellar/get", None)
        except glue.NoResponderError as error:
            print(error)


if __name__ == "__main__":
    main()
