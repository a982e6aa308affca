"""No setting comes from the environment in which the tests run."""

from tests.endpoint.conftest import _environment

__all__ = ["_environment"]
