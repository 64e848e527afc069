"""python3 -m hub.link --rate BYTES --delay SECONDS TARGET...: simulates a slow link in user space, if the kernel lacks
netem.

Each TARGET (HOST:PORT) gets one port, printed as JSON in that order. All targets together send BYTES a second,
SECONDS late. Making a connection takes that long once more. Like TCP's, a connection's window begins at 14 KB, grows
with arriving bytes, and ends at 4 MiB. Nothing is lost.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import time

PIECE_BYTES = 64 << 10
FIRST_WINDOW, MOST_WINDOW = 14_600, 4 << 20
BEHIND_SECONDS = 0.01  # the possible delay of the event loop's clock, which is compensated


class Bottleneck:
    """The part that all connections share."""

    def __init__(self, rate):
        self.rate = rate
        self.free_at = 0.0

    async def pass_through(self, size):
        now = time.monotonic()
        self.free_at = max(self.free_at, now - BEHIND_SECONDS) + size / self.rate
        if self.free_at > now:
            await asyncio.sleep(self.free_at - now)


class Way:
    """One connection's way from the target: pieces in flight, each with its time of arrival."""

    def __init__(self, bottleneck, delay):
        self.bottleneck, self.delay = bottleneck, delay
        self.window, self.in_flight = FIRST_WINDOW, 0
        self.pieces = asyncio.Queue()
        self.arrived = asyncio.Event()

    async def take(self, reader):
        while True:
            while self.in_flight >= self.window:
                self.arrived.clear()
                await self.arrived.wait()
            data = await reader.read(min(PIECE_BYTES, self.window - self.in_flight))
            self.in_flight += len(data)
            await self.bottleneck.pass_through(len(data))
            await self.pieces.put((time.monotonic() + self.delay, data))
            if not data:
                return

    async def give(self, writer):
        while True:
            at, data = await self.pieces.get()
            await asyncio.sleep(max(0, at - time.monotonic()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()
            self.in_flight -= len(data)
            self.window = min(MOST_WINDOW, self.window + len(data))
            self.arrived.set()


async def ask(reader, writer, delay):
    await asyncio.sleep(delay)  # of the handshake, which we don't carry
    while data := await reader.read(PIECE_BYTES):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(arguments):
    bottleneck = Bottleneck(arguments.rate)

    def connection(host, port):
        async def carry(reader, writer):
            with contextlib.suppress(OSError, asyncio.CancelledError):  # the latter if all of this ends
                far_reader, far_writer = await asyncio.open_connection(host, port, limit=PIECE_BYTES)
                way = Way(bottleneck, arguments.delay)
                tasks = [asyncio.ensure_future(work) for work in (way.take(far_reader), way.give(writer),
                                                                  ask(reader, far_writer, arguments.delay))]
                try:
                    await asyncio.gather(*tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    far_writer.close()
                    writer.close()
        return carry

    ports = []
    for target in arguments.target:
        host, _, port = target.rpartition(":")
        server = await asyncio.start_server(connection(host, int(port)), "127.0.0.1", 0, limit=PIECE_BYTES)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()


def main():
    parser = argparse.ArgumentParser(prog="hub.link", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100e6)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("target", nargs="+")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
