"""Run other projects' programs in virtual time: `python benches/programs.py` prints a Markdown table.

Each pair of client and server runs twice, and the outputs are compared. The ratio is virtual time divided by
real time, which includes the start of the kernel."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

FASTOPEN: Final = str(Path(sys.executable).with_name("fastopen"))
RTT: Final = "100ms"
GO: Final = """package main
import ("fmt"; "net/http"; "os"; "time")
func main() {
    if len(os.Args) > 1 { panic(http.ListenAndServe(":80", http.FileServer(http.Dir(os.Args[1])))) }
    for i := 0; i < 3; i++ {
        answer, err := http.Get("http://web/file")
        fmt.Println(answer.Status, err)
        time.Sleep(20 * time.Second)
    }
}
"""
NODE: Final = {
    "server.js": "require('http').createServer((_, answer) => answer.end('ok')).listen(80)",
    "client.js": """let left = 3
const get = () => require('http').get('http://web/', answer => {
    console.log(answer.statusCode, Date.now(), Math.random())
    if (--left) setTimeout(get, 20000)
})
get()
""",
}
QUIC: Final = """import asyncio, ssl, sys, time
from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
async def server(folder):
    settings = QuicConfiguration(is_client=False, alpn_protocols=["x"])
    settings.load_cert_chain(f"{folder}/certificate.pem", f"{folder}/key.pem")
    async def answer(reader, writer):
        writer.write((await reader.read()).upper())
        writer.write_eof()
    accept = lambda reader, writer: asyncio.ensure_future(answer(reader, writer))
    await serve("0.0.0.0", 4433, configuration=settings, stream_handler=accept)
    await asyncio.Future()
async def client():
    settings = QuicConfiguration(alpn_protocols=["x"], verify_mode=ssl.CERT_NONE)
    begun = time.monotonic()
    async with connect("web", 4433, configuration=settings) as connection:
        reader, writer = await connection.create_stream()
        writer.write(b"hello")
        writer.write_eof()
        print(await reader.read(), time.monotonic() - begun)
asyncio.run(server(sys.argv[1]) if sys.argv[1:] else client())
"""
# Name, command of the server, command of the client. {} is the folder with the files that `_write` makes.
PAIRS: Final = (
    ("nginx, curl", "nginx -c {}/nginx.conf", "curl -sS -w %{time_total} http://web/file"),
    ("http.server, wget2", "python3 -m http.server 80 --directory {}", "wget2 -qO- http://web/file"),
    ("iperf3", "iperf3 -s", "iperf3 -c web -R -t 10 --json"),
    ("Go", "{}/go {}", "{}/go"),
    ("Node", "node {}/server.js", "node {}/client.js"),
    (
        "redis-server, redis-benchmark",
        "redis-server --bind 0.0.0.0 --protected-mode no --save ''",
        "redis-benchmark -h web -n 1000 -t set,get",
    ),
    ("rsync", "rsync --daemon --no-detach --config={}/rsyncd.conf", "rsync rsync://web/files/large /tmp"),
    (
        "ssh",
        "sh -c 'mkdir -p /run/sshd && exec /usr/sbin/sshd -D -f {}/sshd_config'",
        "ssh -q -i {}/user -o StrictHostKeyChecking=no web 'sleep 30; date +%s.%N'",
    ),
    ("QUIC (aioquic)", "python3 {}/quic.py {}", "python3 {}/quic.py"),
    (
        "a loop on the clock",
        "python3 -m http.server 80",
        "python3 -c 'import time; t = time.monotonic\nend = t() + 10\nwhile t() < end: pass'",
    ),
    (
        "a retry after 60 s",
        "python3 -m http.server 80",
        "sh -c 'curl -s http://web:81/; sleep 60; date +%s.%N'",
    ),
)


def main() -> None:
    """Run each of PAIRS twice, and print a row for each."""
    print("| programs | same bytes | virtual s | real s | ratio |\n|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _write(folder)
        for name, server, client in PAIRS:
            line, asked = (
                text.replace("{}", made).replace("{{", "{").replace("}}", "}") for text in (server, client)
            )
            first, second = (_run(line, asked) for _ in range(2))
            if first is None or second is None:
                print(f"| {name} | not run | | | |")
                continue
            same = "yes" if first[0] == second[0] else "no"
            virtual_s, real_s = first[1], min(first[2], second[2])
            print(f"| {name} | {same} | {virtual_s:.2f} | {real_s:.2f} | {virtual_s / real_s:.2f} |")


def _write(folder: Path) -> None:
    """Write the files that the programs need, and compile the programs that need it."""
    (folder / "file").write_text("served\n")
    (folder / "large").write_bytes(bytes(range(256)) * 4096)
    (folder / "nginx.conf").write_text(
        "daemon off; pid /tmp/nginx.pid; error_log stderr; events {} "
        f"http {{ access_log off; server {{ listen 80; root {folder}; }} }}"
    )
    sshd = f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\nUsePAM no\n"
    (folder / "sshd_config").write_text(sshd)
    (folder / "rsyncd.conf").write_text(f"use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {folder}\n")
    (folder / "quic.py").write_text(QUIC)
    for name, text in NODE.items():
        (folder / name).write_text(text)
    (folder / "main.go").write_text(GO)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files: list[str | Path] = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    key: list[str | Path] = ["openssl", "req", "-x509", *curve, "-nodes", *files, "-subj", "/CN=web"]
    makers: list[list[str | Path]] = [key, ["go", "build", "-o", folder / "go", folder / "main.go"]]
    makers += [
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name] for name in ("host", "user")
    ]
    for words in makers:
        if shutil.which(str(words[0])):
            subprocess.run(words, check=False, capture_output=True)


def _run(server: str, client: str) -> tuple[str, float, float] | None:
    """Run a client with a server in virtual time. Return the client's output, and the virtual and the real
    time in seconds; None if a program fails."""
    options = ["--engine", "virtual", "--rtt", RTT, "--json", "--serve", f"web={server}"]
    asked = [FASTOPEN, "shell", *options, "--", "sh", "-c", client]
    begun = time.monotonic()
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    real_s = time.monotonic() - begun
    if done.returncode != 0:
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    *_, last = done.stderr.strip().splitlines()
    return done.stdout, json.loads(last)["elapsed_us"] / 1e6, real_s


if __name__ == "__main__":
    main()
