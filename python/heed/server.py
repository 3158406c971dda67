"""The HTTP server in threads of this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Union

from . import _heed

PathLike = Union[str, "os.PathLike[str]"]


class Server:
    """A running server; ``stop()`` or the end of a ``with`` block ends it."""

    def __init__(self, server: _heed.Server) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    def stop(self, seconds: float = 30.0) -> bool:
        """Lets requests under way finish for at most ``seconds``; True where all of them did."""
        return self._server.stop(seconds)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"heed.Server({self.url})"


def serve(
    models: PathLike | Sequence[PathLike],
    host: str = "127.0.0.1",
    port: int = 0,
    api_keys: Sequence[str] = (),
    page: bool = True,
) -> Server:
    """Serves models by OpenAI's API and the explorer page, in threads of this process.

    Returns when the server is ready. ``port=0`` picks a free one::

        with heed.serve("gpt2") as server:
            print(server.url)
    """
    paths = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    server = _heed.Server([os.fspath(path) for path in paths], host, port, list(api_keys), page)
    server.start()
    return Server(server)
