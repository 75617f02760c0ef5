"""Flow sets through SimGrid, each on links of its own, all in one simulation. No part of steptime.

Runs under the Python that has SimGrid: reads a list of sets as JSON, writes the finish times.
"""

import json
import sys

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

OPTIONS = (
    "network/model:CM02",
    "network/crosstraffic:0",
    "network/TCP-gamma:1e30",  # no bound by the window
    "network/optim:Full",  # 3.32's Lazy leaves some flows at old rates
    "surf/precision:1e-12",
    "maxmin/precision:1e-12",
)


def main() -> None:
    sets = json.load(sys.stdin)
    engine = Engine(["peer", *(f"--cfg={option}" for option in OPTIONS), "--log=root.thres:error"])
    zone = NetZone.create_full_zone("all")
    times = []
    for number, one in enumerate(sets):
        times.append([0.0] * len(one["flows"]))
        links = [
            zone.create_link(f"link{number}-{k}", bandwidth).set_latency(latency).seal()
            for k, (bandwidth, latency) in enumerate(one["links"])
        ]
        hosts = [zone.create_host(f"host{number}-{k}", 1e9).seal() for k in range(one["hosts"])]
        for src, dst, path in one["routes"]:
            ends = (hosts[src].netpoint, hosts[dst].netpoint)
            route = [LinkInRoute(links[k]) for k in path]
            zone.add_route(*ends, None, None, route, False)
        for place, (src, dst, nbytes, start) in enumerate(one["flows"]):

            def flow(src=hosts[src], dst=hosts[dst], n=nbytes, at=start, to=times[-1], i=place):
                this_actor.sleep_until(at)
                Comm.sendto(src, dst, n)
                to[i] = Engine.clock

            Actor.create(f"flow{number}-{place}", hosts[src], flow)
    zone.seal()
    engine.run()
    json.dump(times, sys.stdout)


main()
