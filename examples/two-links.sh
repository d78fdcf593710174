#!/bin/sh
# Measure TCP handshakes through two links with the same delay, as in Mininet: a host, a router and a server.
#   fastopen shell --engine virtual --rtt 10ms -- sh examples/two-links.sh 10ms
# prints 80 and 40 ms: 10 ms one way on each link is an RTT of 40 ms, and before the first handshake ARP
# takes 20 ms on each link.
set -e
delay=$1
for host in client router server; do ip netns add "$host"; done

link() { # NAME NUMBER: a link between a host and the router, with the delay at both of its ends
    ip link add "$1" netns "$1" type veth peer name "$1" netns router
    ip -n "$1" address add "10.$2.0.1/24" dev "$1"
    ip -n router address add "10.$2.0.2/24" dev "$1"
    for end in "$1" router; do
        ip -n "$end" link set "$1" up
        ip netns exec "$end" tc qdisc add dev "$1" root netem delay "$delay"
    done
    ip -n "$1" route add default via "10.$2.0.2"
}
link client 1
link server 2
ip netns exec router sysctl -qw net.ipv4.ip_forward=1

ip netns exec server python3 -c 'import socket, time; server = socket.create_server(("", 80)); time.sleep(9)' &
sleep 1
ip netns exec client python3 -c '
import socket, time
for _ in range(2):
    began = time.monotonic()
    socket.create_connection(("10.2.0.1", 80))
    print(f"{1000 * (time.monotonic() - began):.0f} ms")'
