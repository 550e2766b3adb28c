"""A network delay between the load driver and the embedded target: a relay on loopback that holds all bytes back."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

CHUNK = 1 << 16
Tap = Callable[[bytes, bool], bytes | None]
"""Sees the bytes of a connection as they come, and whether they go to the target; what it returns of them is the last
that is passed on in that direction, None passes on all and goes on."""


async def _relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seconds: float, tap: Tap, out: bool) -> None:
    """Passes bytes on, each chunk this long after it arrived, without holding up those behind it."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def write() -> None:
        while True:
            due, chunk = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not chunk:
                break
            sink.write(chunk)
            await sink.drain()
        sink.close()

    writer = asyncio.create_task(write())
    with contextlib.suppress(ConnectionError):
        while chunk := await source.read(CHUNK):
            last = tap(chunk, out)
            waiting.put_nowait((loop.time() + seconds, chunk if last is None else last))
            if last is not None:
                break
    waiting.put_nowait((loop.time() + seconds, b""))
    with contextlib.suppress(ConnectionError):
        await writer


@contextlib.contextmanager
def delayed(
    host: str, milliseconds: float, tapped: Callable[[], Tap] = lambda: lambda chunk, out: None
) -> Iterator[str]:
    """Relays connections to a host.

    :param host: ``address:port`` of the target.
    :param milliseconds: delay in each direction, so that a round trip takes twice as much longer.
    :param tapped: makes the tap of a connection; default lets all pass.
    :return: the ``address:port`` to use instead, as long as the context lasts.
    """
    address, port = host.rsplit(":", 1)
    loop = asyncio.new_event_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(address, int(port))
        except OSError:
            writer.close()
            return
        seconds, tap = milliseconds / 1000, tapped()
        await asyncio.gather(_relay(reader, back, seconds, tap, True), _relay(there, writer, seconds, tap, False))

    server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        if tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks))
        loop.close()
