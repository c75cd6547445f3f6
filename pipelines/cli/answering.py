"""A web server that prints its address when it answers."""

import socket

import uvicorn

from pipelines.cli.notes import note


class Announced(uvicorn.Server):
    """A uvicorn server that prints the line ``says`` once it listens."""

    def __init__(self, config: uvicorn.Config, says: str) -> None:
        super().__init__(config)
        self._says = says

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        note(self._says)
