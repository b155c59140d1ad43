"""The client's other backend: a sandbox that a server holds, over its HTTP API (``docs/http.md``).

Laws: the key goes to the URL's own host and nowhere else, and stands in no error and no ``repr``. What the server sends is
bounded and typed before it is used: much of it was made by the code inside. ``aiohttp`` and ``websockets`` are imported when
the first request is made, so that the client itself needs neither.
"""
