"""All targets. A new decoder gets a function in the module of its kind."""

from tests.fuzz.registry import TARGETS
from tests.fuzz.targets import captures, codecs, doors, endpoint, models, security, settings, storage, wire

__all__ = ["TARGETS", "captures", "codecs", "doors", "endpoint", "models", "security", "settings", "storage", "wire"]
