"""Doors with real sockets: Carrier's routes, topics, streams, webhooks, rights and limits."""

from __future__ import annotations

import base64
import json
import queue
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glue.errors import ConfigurationError
from glue.gateway.http import lanes, server
from glue.gateway.http.client import Client, DoorError
from glue.gateway.http.gateway import Gateway
from glue.gateway.http.limits import Limits
from glue.gateway.http.tokens import Access, add_token
from glue.gateway.http.webhook import Webhook, serve
from tests.gateway.http.doors import Doors
from tests.gateway.http.hook import Hook, wait
from tests.gateway.http.streams import opened_stream
from tests.support.lan import PATIENCE, Lan


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that fail are made again soon."""
    monkeypatch.setattr(lanes, "RETRIES", (0.02, 0.05))


def client(gateway: Gateway, token: str | None = None) -> Client:
    return Client(f"http://127.0.0.1:{gateway.port}", token, timeout=PATIENCE)


def refused(call: Callable[[], Any]) -> DoorError:
    with pytest.raises(DoorError) as caught:
        call()
    return caught.value


def test_carriers_routes_create_subscribe_and_publish(door: Doors, tmp_path: Path) -> None:
    hook = Hook()
    with door(data_dir=tmp_path) as gateway, hook.served() as url, client(gateway) as carrier:
        assert refused(lambda: carrier.call("POST", "/publish", {"topic": "t", "payload": ""})).status == 404
        carrier.call("POST", "/create", {"topic": "t"})
        carrier.call("POST", "/create", {"topic": "t"})
        carrier.call("POST", "/subscribe", {"topic": "t", "addr": url})
        carrier.call("POST", "/subscribe", {"topic": "t", "addr": url})
        payload = base64.b64encode(b"\x00hello").decode()
        carrier.call("POST", "/publish", {"topic": "t", "payloadType": "greeting", "payload": payload})
        assert json.loads(hook.next()[1]) == {"payload": payload, "payloadType": "greeting"}
        for path, body in [
            ("/create", {}), ("/create", {"topic": "a/#"}), ("/create", {"topic": 5}), ("/create", b"{"),
            ("/subscribe", {"topic": "t"}), ("/subscribe", {"topic": "t", "addr": "file:///etc/passwd"}),
            ("/publish", {"topic": "t"}), ("/publish", {"topic": "t", "payload": "%"}),
            ("/publish", {"topic": "t", "payload": "", "payloadType": 1}),
        ]:  # fmt: skip
            error = refused(lambda path=path, body=body: carrier.call("POST", path, body))  # type: ignore[misc]
            assert (error.status, bool(error.reason)) == (400, True)


def test_publish_last_value_history_and_request(door: Doors, lan: Lan, tmp_path: Path) -> None:
    hall = lan.start("hall")
    got = hall.subscribe("home/#")
    hall.respond("sum", lambda request: sum(request.payload))
    with door(data_dir=tmp_path, keep=["home/#"]) as gateway, client(gateway) as user:
        hall.wait_for_subscribers("home/x", 1, timeout=PATIENCE)
        done = user.publish("home/lamp", {"on": True}, retain=1, type="state", property="unit=none")
        assert (done["acks"], done["durable"]) == ("disk", ["door"])
        message = next(got)
        assert (message.topic, message.payload, message.type) == ("home/lamp", {"on": True}, "state")
        assert message.properties == {"unit": "none"}
        user.call("POST", "/v1/topics/home/text", b"on", {"content-type": "application/x-www-form-urlencoded"})
        user.call("POST", "/v1/topics/home/text", b"21.5", {"content-type": "application/x-www-form-urlencoded"})
        user.call("POST", "/v1/topics/home/bytes", b"\x00\xff")
        assert [next(got).payload for _ in range(3)] == ["on", 21.5, b"\x00\xff"]
        last = user.last("home/lamp")
        assert last is not None
        assert (last["payload"], last["publisher"]) == ({"on": True}, "door")
        assert user.last("home/none") is None
        assert [message["topic"] for message in user.history("home/#")] == [
            "home/lamp",
            "home/text",
            "home/text",
            "home/bytes",
        ]
        page = user.call("GET", "/v1/topics/home/text?since=1h&limit=1")
        rest = user.call("GET", f"/v1/topics/home/text?offset={page['next']}")
        assert [m["payload"] for m in page["messages"] + rest["messages"]] == ["on", 21.5]
        assert user.request("sum", [1, 2, 3]) == 6
        assert refused(lambda: user.request("sum", "x")).status == 502
        assert refused(lambda: user.request("nothing", 1)).status == 404
        batch = b'{"topic":"home/b","payload":1}\n{"topic":"home/b","payload_base64":"AA=="}\n'
        assert user.call("POST", "/v1/publish", batch)["messages"] == 2
        assert [next(got).payload for _ in range(2)] == [1, b"\0"]
        batch = b"".join(b'{"topic":"home/%c","payload":%d}\n' % (topic, place) for place, topic in enumerate(b"aabca"))
        assert user.call("POST", "/v1/publish", batch)["messages"] == 5
        found = [next(got) for _ in range(5)]
        assert [(message.topic[-1], message.payload) for message in found] == [*zip("aabca", range(5), strict=True)]
        for wrong in ("?acks=many", "?lifespan=x", "?property=x", "?retain=maybe", "?priority=top"):
            assert refused(lambda wrong=wrong: user.call("POST", f"/v1/topics/home/x{wrong}", b"")).status == 400  # type: ignore[misc]
        assert refused(lambda: user.call("POST", "/v1/topics/home/x%2F%23", b"")).status == 400


def test_a_webhook_gets_everything_in_order_signed_through_failures(door: Doors, tmp_path: Path) -> None:
    hook = Hook()
    hook.answers = [500, 302]
    with hook.served() as url:
        with door(data_dir=tmp_path) as gateway, client(gateway) as user:
            made = user.subscribe("t/#", url)
            for number in range(5):
                user.publish("t/x", number)
            first = [hook.next() for _ in range(3)]
            assert {headers["webhook-id"] for headers, _ in first} == {first[0][0]["webhook-id"]}
            opened = Webhook(made["secret"])
            events = [opened.open(*pair) for pair in [first[2], *(hook.next() for _ in range(4))]]
            assert [event.payload for event in events] == [0, 1, 2, 3, 4]
            assert not any(event.missed for event in events)
            user.call("PATCH", f"/v1/subscriptions/{made['id']}", {"state": "paused"})
            user.publish("t/x", 5)
        with door(data_dir=tmp_path) as gateway, client(gateway) as user:  # another life of the door
            (known,) = user.call("GET", "/v1/subscriptions")["subscriptions"]
            assert (known["id"], known["state"], known["secrets"]) == (made["id"], "paused", 1)
            assert (known["failures"], known["failing"], known["under_way"], known["behind"]) == (0, False, 0, 1)
            assert hook.got.empty()
            user.call("PATCH", f"/v1/subscriptions/{made['id']}", {"state": "active"})
            assert opened.open(*hook.next()).payload == 5
            user.unsubscribe(made["id"])
            assert user.call("GET", "/v1/subscriptions")["subscriptions"] == []


def test_what_is_given_up_is_a_dead_letter_that_can_be_replayed(door: Doors, tmp_path: Path) -> None:
    hook = Hook()
    hook.answers = [503]
    with door(data_dir=tmp_path) as gateway, hook.served() as url, client(gateway) as user:
        made = user.subscribe("t", url, give_up_after=1e-6)
        for number in range(2):
            user.publish("t", number)
        tried = [hook.next() for _ in range(2)]
        assert [body for _, body in tried] == [b"0", b"1"], "the second one goes on after the first was given up"
        path = f"/v1/subscriptions/{made['id']}/dead-letters"
        (dead,) = user.call("GET", path)["dead_letters"]
        assert (dead["topic"], dead["sequence"]) == ("t", 1)
        assert "503" in dead["reason"]
        user.call("POST", f"{path}/replay")
        headers, body = hook.next()
        assert (body, headers["webhook-id"]) == (b"0", tried[0][0]["webhook-id"])
        assert user.call("GET", path)["dead_letters"] == []
        assert len(user.call("GET", f"{path}?all=1")["dead_letters"]) == 1


def test_a_stream_goes_on_where_it_was_cut(door: Doors) -> None:
    with door() as gateway, client(gateway) as user, client(gateway) as other:
        path, headers = "/v1/topics/s/%23", {"accept": "text/event-stream"}
        with opened_stream(gateway, path, headers) as lines:
            assert [next(lines) for _ in range(4)][::2] == [b"retry: 1000", b"event: ready"]
            other.publish("s/1", 1)
            other.publish("other", 0)
            found = list(zip(range(2), lines, strict=False))
            id = next(line for _, line in found if line.startswith(b"id: "))[4:].decode()
            assert any(b'"payload":1' in line for _, line in found)
        other.publish("s/2", 2)
        with opened_stream(gateway, path, {**headers, "last-event-id": id}) as lines:
            assert b'"payload":2' in next(line for line in lines if line.startswith(b'data: {"'))
        with opened_stream(gateway, path, {**headers, "last-event-id": "other-door.5"}) as lines:
            assert [next(lines) for _ in range(5)][4] == b"event: missed"
        values = user.stream("s/+", retained=False)
        thread = threading.Timer(0.05, lambda: other.publish("s/3", {"x": 1}))
        thread.start()
        assert next(values)["payload"] == {"x": 1}
        thread.join()


def test_a_websocket_publishes_and_subscribes(door: Doors, lan: Lan) -> None:
    websockets = pytest.importorskip("websockets.sync.client")
    with door() as gateway:
        url = f"ws://127.0.0.1:{gateway.port}/v1/stream?topic=w/1"
        with websockets.connect(url) as one:
            one.send(json.dumps({"publish": "w/1", "payload": {"n": 1}, "ref": 7}))
            found = [json.loads(one.recv(PATIENCE)) for _ in range(2)]
            assert {"done": 7, "topic": "w/1", "acks": "sent"} in found
            assert any(message.get("payload") == {"n": 1} and message["id"] for message in found)
            one.send(json.dumps({"subscribe": "w/2"}))
            one.send(json.dumps({"publish": "w/2", "payload": "x"}))
            assert json.loads(one.recv(PATIENCE))["payload"] == "x"
            for wrong in ("[", "[]", "{}", '{"subscribe": "a/#/b"}', '{"publish": "#"}', '{"publish": 5}'):
                one.send(wrong)
                assert json.loads(one.recv(PATIENCE))["error"]


def test_keys_of_a_model_are_read_compared_and_watched(door: Doors) -> None:
    with door(models=("plant",)) as gateway, client(gateway) as user:
        key = "/v1/models/plant/keys/valve/1"
        assert refused(lambda: user.call("GET", key)).status == 404
        first = user.call("PUT", key, {"open": True}, {"if-none-match": "*"})["revision"]
        assert refused(lambda: user.call("PUT", key, 1, {"if-none-match": "*"})).status == 412
        assert user.call("PATCH", key, {"by": "me"})["revision"] > first
        assert user.call("GET", key) == {"open": True, "by": "me"}
        assert refused(lambda: user.call("PUT", key, 1, {"if-match": f'"{first}"'})).status == 412
        user.call("POST", key, {"expected": {"open": True, "by": "me"}, "value": 5})
        assert user.call("GET", "/v1/models/plant/keys?pattern=valve/%2B") == {"items": {"valve/1": 5}}
        with opened_stream(gateway, "/v1/models/plant/keys", {"accept": "application/x-ndjson"}) as lines:
            assert json.loads(next(lines))["value"] == 5
            user.call("DELETE", key)
            assert json.loads(next(lines))["value"] is None
        assert user.call("GET", "/v1/models")["models"][0]["leader"] == "door"
        assert refused(lambda: user.call("GET", "/v1/models/other/keys")).status == 404


def test_a_token_opens_its_topics_and_no_others_and_the_log_says_why(
    door: Doors, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "kitchen", ["home/#"], ["home/+"])
    with door(access=Access(tokens)) as gateway, client(gateway, token) as kitchen, client(gateway) as nobody:
        kitchen.publish("home/x", 1)
        for _ in range(3):
            assert refused(lambda: kitchen.publish("other", 1)).status == 403
        assert refused(lambda: kitchen.history("home/#")).status == 403
        assert refused(lambda: kitchen.call("GET", "/v1/endpoints")).status == 403
        assert refused(lambda: kitchen.subscribe("#", "http://127.0.0.1:1/")).status == 403
        assert refused(lambda: nobody.publish("home/x", 1)).status == 401
        with client(gateway, "wrong") as stranger:
            assert refused(lambda: stranger.publish("home/x", 1)).status == 401
        made = kitchen.subscribe("home/x", "http://127.0.0.1:1/")
        assert "secret" not in kitchen.call("GET", f"/v1/subscriptions/{made['id']}")
    assert [record.getMessage() for record in caplog.records if record.name == "glue.http"] == [
        "127.0.0.1: client 'kitchen' may not publish to 'other': no publish pattern of its token covers it",
        "127.0.0.1: client 'kitchen' may not read 'home/#': no subscribe pattern of its token covers it",
        "127.0.0.1: client 'kitchen' has no admin rights, which this needs (glue http token new --admin)",
        "127.0.0.1: client 'kitchen' may not read '#': no subscribe pattern of its token covers it",
        "127.0.0.1: a token is needed: Authorization: Bearer …",
        "127.0.0.1: this token is not known",
    ]


def test_pages_of_other_servers_and_rebound_names_are_refused(door: Doors) -> None:
    with door(cors=["http://panel.lan"]) as gateway, client(gateway) as user:
        for headers, status in [
            ({"origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 401),
            ({"origin": f"http://127.0.0.1:{gateway.port}"}, 200), ({"origin": "http://panel.lan"}, 200),
        ]:  # fmt: skip
            if status == 200:
                user.call("GET", "/v1/status", headers=headers)
            else:
                assert refused(lambda headers=headers: user.call("GET", "/v1/status", headers=headers)).status == status  # type: ignore[misc]


def test_what_is_too_large_or_unknown_is_told(door: Doors) -> None:
    with door(limits=Limits(body=1000, header=2000, request_time=0.2)) as gateway, client(gateway) as user:
        assert refused(lambda: user.publish("t", "x" * 2000)).status == 413
        assert refused(lambda: user.call("GET", "/nothing")).status == 404
        assert refused(lambda: user.call("PUT", "/v1/health")).status == 405
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as slow:
            slow.sendall(b"POST /v1/topics/t HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nabc")
            assert b"408" in slow.recv(1000)


def test_a_body_that_says_it_is_too_large_is_not_waited_for(door: Doors) -> None:
    with door() as gateway, socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as huge:
        huge.sendall(b"POST /v1/topics/t HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\nabc")
        assert b"413" in huge.recv(1000)


def test_a_client_that_reads_no_answer_is_cut(door: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP", 0.02)
    with door(limits=Limits(send_time=0.1)) as gateway, client(gateway) as user:
        user.publish("large", b"x" * 12_000_000, retain=1)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as suspended:
            suspended.sendall(b"GET /v1/topics/large?raw=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            wait(lambda: "connections cut: the client read nothing" in user.call("GET", "/v1/status")["counters"])
            assert user.last("large"), "others are served"


def test_an_answer_of_history_is_limited_in_bytes(door: Doors, lan: Lan, tmp_path: Path) -> None:
    other = lan.start("other")
    with door(data_dir=tmp_path, keep=["h"], limits=Limits(body=100_000)) as gateway, client(gateway) as user:
        other.remember("r")
        for topic in ("h", "r"):
            other.wait_for_subscribers("h", 1, timeout=PATIENCE)
            for _ in range(10):
                other.publish(topic, "x" * 30_000)
        wait(lambda: user.call("GET", "/v1/status")["log"]["end"] == 10)
        page = user.call("GET", "/v1/topics/h?since=1h")
        assert len(page["messages"]) == 4
        assert len(user.call("GET", f"/v1/topics/h?offset={page['next']}")["messages"]) == 4
        wait(lambda: len(user.call("GET", "/v1/topics/r?since=1h")["messages"]) == 4)


def test_streams_of_keys_count_as_streams(door: Doors) -> None:
    with door(models=("plant",), limits=Limits(streams=0)) as gateway, client(gateway) as user:
        headers = {"accept": "application/x-ndjson"}
        for path in ("/v1/stream?topic=a", "/v1/models/plant/keys"):
            assert refused(lambda path=path: user.call("GET", path, headers=headers)).status == 503  # type: ignore[misc]


def test_none_is_a_payload(door: Doors, lan: Lan) -> None:
    got = lan.start("hall").subscribe("t")
    with door() as gateway, client(gateway) as user:
        wait(lambda: bool(user.call("GET", "/v1/endpoints")["endpoints"]))
        user.publish("t", None)
        assert next(got).payload is None


@pytest.mark.parametrize("origin", ["panel.lan", "http://panel.lan/", "*", "http://", "http://panel.lan:x"])
def test_an_origin_that_no_page_has_is_a_mistake(door: Doors, origin: str) -> None:
    with pytest.raises(ConfigurationError, match="http://panel"), door(cors=[origin]):
        pass


def test_a_program_receives_webhooks_with_the_helper(door: Doors) -> None:
    with door() as gateway, client(gateway) as user:
        got: queue.Queue[Any] = queue.Queue()
        secret = "whsec_" + base64.b64encode(bytes(32)).decode()
        with serve(Webhook(secret), lambda event: got.put(event.payload)) as port:
            user.subscribe("t", f"http://127.0.0.1:{port}/", secret=secret)
            user.publish("t", [1, 2])
            assert got.get(timeout=PATIENCE) == [1, 2]


def test_each_route_is_described(door: Doors) -> None:
    with door() as gateway, client(gateway) as user:
        paths = user.call("GET", "/openapi.json")["paths"]
        body = paths["/v1/subscriptions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert (body["required"], body["properties"]["parallel"]["maximum"]) == (["topic", "url"], 64)
        assert {"/create", "/subscribe", "/publish", "/v1/topics/{topic}", "/v1/subscriptions/{id}"} <= paths.keys()
        open_ones = {path for path, found in paths.items() for one in found.values() if one.get("security") == []}
        assert open_ones == {route.path for route in server.ROUTES if route.is_open}
        assert "/v1/topics/{topic}" not in open_ones
        ids = [operation["operationId"] for path in paths.values() for operation in path.values()]
        assert len(ids) == len({*ids})
        assert user.call("GET", "/asyncapi.json")["asyncapi"] == "3.0.0"
        assert b"glue_http_events_total" in user.call("GET", "/metrics")
        assert b"<title>" in user.call("GET", "/")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, and certificates that it has signed for "localhost" and for the client "panel"."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-subj", "/CN=test authority", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("localhost", "panel"):
        (folder / "names").write_text(f"subjectAltName=DNS:{name}")
        openssl("req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return folder


def test_tls_with_client_certificates(door: Doors, authority: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    add_token(tokens, "panel", ["home/#"], [], for_certificate=True)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority / "ca.pem"))
    server.load_cert_chain(authority / "localhost.pem", authority / "localhost.key")
    server.verify_mode = ssl.CERT_REQUIRED
    stranger = ssl.create_default_context(cafile=str(authority / "ca.pem"))
    panel = ssl.create_default_context(cafile=str(authority / "ca.pem"))
    panel.load_cert_chain(authority / "panel.pem", authority / "panel.key")
    with door(tls=server, access=Access(tokens)) as gateway:
        url = f"https://localhost:{gateway.port}"
        with Client(url, tls=panel, timeout=PATIENCE) as user:
            assert user.publish("home/x", 1)["topic"] == "home/x"
            assert refused(lambda: user.publish("other", 1)).status == 403
        with Client(url, tls=stranger, timeout=PATIENCE) as user, pytest.raises(OSError, match=r"."):
            user.publish("home/x", 1)


def test_curl_publishes_and_reads(door: Doors) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with door() as gateway:
        url = f"http://localhost:{gateway.port}/v1/topics/home/lamp"
        for words, expected in [(["-d", "on", f"{url}?retain=1"], '"acks":"sent"'), ([f"{url}?raw=1"], '"on"')]:
            done = subprocess.run(["curl", "-sS", *words], capture_output=True, text=True, timeout=PATIENCE, check=True)
            assert expected in done.stdout
