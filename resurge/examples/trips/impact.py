"""What a kilometre costs the air, from published factors. Two kinds, never added to each other:

* CO2e per *passenger*-kilometre: the rider's own share. Public transport is divided by its usual occupancy, a car
  carries one person. Source: mobitool-Faktoren v3.0 (2023), as tabulated by pledge4future/co2calculator (commit
  ffb7d4d2, emission_factors_transport.csv): car average 0.1864, city bus 13 m diesel 0.1338, train Germany 0.0408,
  bicycle 0.0056 kg per passenger-km; whole life cycle, vehicle and way included.
* Particulates per *vehicle*-kilometre: what the vehicle one sits in puts into the street, however many sit in it.
  Source: Dutch government emission factors for non-motorways, release of 2016, year 2016, city, normal traffic
  (as tabulated by EddyTheB/EmissionFactors): PM2.5 light 0.016212, bus 0.143354; PM10 light 0.037488, bus 0.220814
  g per vehicle-km; combustion and wear. It has no figure for trains, and there is none here.

Walking counts as nothing, since nobody publishes what a walker would have eaten otherwise.
"""

from __future__ import annotations

CO2E_G_PER_PASSENGER_KM = {"walk": 0.0, "bike": 5.6, "bus": 133.8, "car": 186.4, "train": 40.8}
PM25_MG_PER_VEHICLE_KM = {"walk": 0.0, "bike": 0.0, "bus": 143.354, "car": 16.212, "train": 0.0}
PM10_MG_PER_VEHICLE_KM = {"walk": 0.0, "bike": 0.0, "bus": 220.814, "car": 37.488, "train": 0.0}
MOVING = tuple(CO2E_G_PER_PASSENGER_KM)
