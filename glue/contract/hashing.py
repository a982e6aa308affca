"""BLAKE2 for what every endpoint hashes at its start.

The module `hashlib` imports OpenSSL, which takes 2 ms. BLAKE2 needs none of it.
"""

try:
    from _blake2 import blake2s
except ImportError:  # another implementation of Python
    from hashlib import blake2s

__all__ = ["blake2s"]
