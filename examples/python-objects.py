r"""Time objects that Python fetches one after the other from Python's own server, with and without TFO.

    for tfo in "" --tfo; do fastopen shell --engine virtual $tfo --rtt 20ms --down 10mbit --up 10mbit -q \
      --serve 'sh -c "cd /tmp; head -c 19000 /dev/zero >object; exec python3 -m http.server 80"' \
      python3 examples/python-objects.py; done

prints 65.6 and 45.5 ms: TFO saves a whole RTT for each object. At 5 and 15 Mbit/s it saves the same.
"""

import time
from urllib.request import urlopen

OBJECTS = 40

for count in (1, OBJECTS):  # the first connection requests the cookie
    began = time.monotonic()
    for _ in range(count):
        urlopen("http://server/object").read()
print(f"{1000 * (time.monotonic() - began) / OBJECTS:.1f} ms")
