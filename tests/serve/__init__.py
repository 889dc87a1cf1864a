"""The server, as a process of its own, tried by real clients."""
