"""How many vehicle steps per second does highway-env simulate on one core?

Run, from the root of the repository:

    python3 -m venv /tmp/highway
    /tmp/highway/bin/pip install -r benches/rivals/highway/requirements.txt
    taskset -c 0 /tmp/highway/bin/python benches/rivals/highway/measure.py

The counterpart of `sim/traffic_idm_mobil_50_cars/1t`: fifty cars that follow (IDM) and change
lanes (MOBIL), without observations, rewards, drawing or an agent. A unit is one car moved by
one simulation step. Prints `case,unit,runs,min,median,max`.
"""

import statistics
import time

from highway_env.road.road import Road, RoadNetwork
from highway_env.vehicle.behavior import IDMVehicle

N_CARS = 50
N_STEPS = 60
N_RUNS = 9
DT = 1 / 15


def traffic(seed):
    """Fifty cars on four lanes, 60 m of road each."""
    import numpy as np

    network = RoadNetwork.straight_road_network(4, length=100_000)
    road = Road(network, np_random=np.random.RandomState(seed), record_history=False)
    for number in range(N_CARS):
        lane = network.get_lane(("0", "1", number % 4))
        speed = road.np_random.uniform(20, 30)
        position = lane.position(500 + 15 * number, 0)
        car = IDMVehicle(road, position, lane.heading_at(0), speed, enable_lane_change=True)
        car.target_speed = road.np_random.uniform(20, 35)
        road.vehicles.append(car)
    return road


def main():
    rates = []
    for run in range(N_RUNS + 1):
        road = traffic(run)
        before = [float(car.position[0]) for car in road.vehicles]
        start = time.perf_counter()
        for _ in range(N_STEPS):
            road.act()
            road.step(DT)
        seconds = time.perf_counter() - start
        moved = [float(car.position[0]) - x for car, x in zip(road.vehicles, before)]
        if min(moved) < 10:
            raise SystemExit("a car did not drive: nothing is measured")
        if run > 0:  # the first run warms up
            rates.append(N_CARS * N_STEPS / seconds)
    figures = min(rates), statistics.median(rates), max(rates)
    print("case,unit,runs,min,median,max")
    print(f"highway_env/traffic_idm_mobil_50_cars/1t,vehicle_steps,{N_RUNS}," + ",".join(f"{x:.4e}" for x in figures))


if __name__ == "__main__":
    main()
