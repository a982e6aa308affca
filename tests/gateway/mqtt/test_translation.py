"""Properties of MQTT 5 in glue, and properties of glue at clients."""

from __future__ import annotations

import pytest

from glue.gateway.mqtt.translation import for_clients, for_network


def test_properties_pass_both_ways() -> None:
    own = {
        "content_type": "text/csv",
        "response_topic": "replies/1",
        "correlation_data": b"\0\xff",
        "user_property": [("unit", "°C"), ("room", "hall")],
    }
    found, are_too_large = for_network({**own, "message_expiry_interval": 5, "payload_format_indicator": 1})
    assert not are_too_large
    assert found == {
        "unit": "°C", "room": "hall", "content-type": "text/csv", "response-topic": "replies/1",
        "correlation-data": "AP8=",
    }  # fmt: skip
    assert for_clients(found) == own


@pytest.mark.parametrize("pairs", [[(str(n), "") for n in range(65)], [("a", "x" * 8_192)]])
def test_too_many_and_too_large_properties_are_left_out(pairs: list[tuple[str, str]]) -> None:
    assert for_network({"user_property": pairs}) == (None, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("correlation-data", "no base64!"), ("correlation-data", "AP8"), ("correlation-data", "ü"),
        ("response-topic", "a/#"), ("response-topic", "+"), ("response-topic", "a\0"), ("response-topic", ""),
        ("x", "y"),
    ],
)  # fmt: skip
def test_what_is_not_well_formed_for_mqtt_is_a_user_property(name: str, value: str) -> None:
    assert for_clients({name: value}) == {"user_property": [(name, value)]}


def test_no_properties_are_none() -> None:
    assert for_network(None) == for_network({"payload_format_indicator": 1}) == (None, False)
    assert for_clients({}) is None


def test_what_doors_tell_each_other_is_not_for_clients_and_a_property_without_a_name_not_for_endpoints() -> None:
    assert for_clients({"mqtt-log": "1", "unit": "m"}) == {"user_property": [("unit", "m")]}
    assert not for_clients({"mqtt-log": "1"})
    assert for_network({"user_property": [("", "x"), ("unit", "m"), ("unit", "s")]}) == ({"unit": "s"}, False)
    assert for_network({"user_property": [("", "x")]}) == (None, False)
