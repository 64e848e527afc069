"""python3 -m hub.namespace --rate BYTES --delay SECONDS: makes a slow link to a network namespace, for root on Linux.

It prints JSON: `namespace`, in which clients run (`ip netns exec`), and `address`, on which a hub listens that they
reach. Packets of this machine's own TCP go there and back through two TUN devices. The kernel passes BYTES a second
towards the namespace (tbf). This process forwards each packet, in both directions, SECONDS after its arrival, since
few kernels have netem. It ends with SIGTERM, and leaves nothing behind.
"""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import time

TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 65_520  # few packets, as on the loopback interface
HUB, CLIENTS = "10.223.61.1", "10.223.61.2"
BURST_BYTES = 4 * MTU
QUEUE_SECONDS = 0.1  # of data that waits for the rate


def run(*words):
    subprocess.run(words, check=True)


def open_tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


@contextlib.contextmanager
def devices(rate):
    """Makes both ends of the link. Returns their file descriptors, the hub's first."""
    name = f"hfshard{os.getpid()}"
    near, far = f"hfs{os.getpid()}a", f"hfs{os.getpid()}b"
    ends = [open_tun(near), open_tun(far)]
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "set", far, "netns", name)
        run("ip", "addr", "add", HUB, "peer", CLIENTS, "dev", near)
        run("ip", "-n", name, "addr", "add", CLIENTS, "peer", HUB, "dev", far)
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "set", near, "mtu", str(MTU), "up")
        run("ip", "-n", name, "link", "set", far, "mtu", str(MTU), "up")
        run("tc", "qdisc", "add", "dev", near, "root", "tbf", "rate", f"{int(rate * 8)}bit", "burst", str(BURST_BYTES), "limit",
            str(int(rate * QUEUE_SECONDS) + BURST_BYTES))
        yield name, ends
    finally:
        for end in ends:
            os.close(end)
        run("ip", "netns", "delete", name)


def carry(ends, delay, stopped):
    """Forwards each packet after its time."""
    ways = [(ends[0], ends[1], collections.deque()), (ends[1], ends[0], collections.deque())]
    while not stopped:
        now = time.monotonic()
        for _, to, packets in ways:
            while packets and packets[0][0] <= now:
                with contextlib.suppress(OSError):  # no room there: it is lost, as on any link
                    os.write(to, packets.popleft()[1])
        due = [packets[0][0] for _, _, packets in ways if packets]
        readable, _, _ = select.select(ends, [], [], max(0, min(due) - time.monotonic()) if due else 1)
        for end, _, packets in ways:
            if end in readable:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        packets.append((time.monotonic() + delay, os.read(end, MTU)))


def main():
    parser = argparse.ArgumentParser(prog="hub.namespace", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100e6)
    parser.add_argument("--delay", type=float, default=0.05)
    arguments = parser.parse_args()
    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.append(True))
    with devices(arguments.rate) as (name, ends):
        print(json.dumps({"namespace": name, "address": HUB}), flush=True)
        carry(ends, arguments.delay, stopped)


if __name__ == "__main__":
    main()
