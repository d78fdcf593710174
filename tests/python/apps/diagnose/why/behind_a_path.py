"""Open two TFO connections, then print the JSON of `fastopen why` and `probe`. `probe_world.py` runs this."""

import json
import socket
import subprocess
import sys
from contextlib import suppress

FASTOPEN = [sys.executable, "-c", "from fastopen.cli import main; main()"]
SERVER = ("10.9.0.2", 80)
TCP_FASTOPEN_CONNECT = 30
# Longer than the first timeout of a SYN.
PATIENCE_S = 1.5

for _ in range(2):
    with socket.socket() as client, suppress(OSError):
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        client.connect(SERVER)
        client.sendall(b"hello")
        client.recv(100)
ASKED = (
    ["why", "--seconds", "0", "--json"],
    ["probe", "--json", "--quiet", f"{SERVER[0]}:{SERVER[1]}"],
)
said = [subprocess.run([*FASTOPEN, *words], capture_output=True, check=False).stdout for words in ASKED]
print(json.dumps([json.loads(one) for one in said]))
