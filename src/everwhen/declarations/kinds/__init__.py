"""The kinds of things that can be declared, each behind the protocol of `protocol.py`."""
