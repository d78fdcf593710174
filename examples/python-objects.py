r"""Measure how long Python takes to fetch an object from Python's own web server, with and without TFO.

    for tfo in "" --tfo; do fastopen shell --engine virtual $tfo --rtt 20ms --down 10mbit --up 10mbit -q \
      --serve 'sh -c "cd /tmp; head -c 19000 /dev/zero >object; exec python3 -m http.server 80"' \
      python3 examples/python-objects.py; done

prints 65.6 and 45.5 ms, means over 40 objects fetched one after the other: TFO saves a whole RTT for each.
The saving is the same at 5 and 15 Mbit/s.
"""

import time
from urllib.request import urlopen

OBJECTS = 40

for count in (1, OBJECTS):  # the first connection requests the cookie
    began = time.monotonic()
    for _ in range(count):
        urlopen("http://server/object").read()
print(f"{1000 * (time.monotonic() - began) / OBJECTS:.1f} ms")
