"""Why does A not hear B? A pure room: what was seen on a machine and its segment goes in, findings come out.

`glue.observing` sees, `glue doctor` asks and prints.
"""

from glue.doctor.diagnosis import RULES, Diagnosis, diagnose
from glue.doctor.finding import FAULT, NOTE, WARNING, Finding
from glue.doctor.seen import EndpointSeen, InterfaceSeen, MachineSeen, PathSeen, Seen, SenderSeen, Way

__all__ = [
    "FAULT",
    "NOTE",
    "RULES",
    "WARNING",
    "Diagnosis",
    "EndpointSeen",
    "Finding",
    "InterfaceSeen",
    "MachineSeen",
    "PathSeen",
    "Seen",
    "SenderSeen",
    "Way",
    "diagnose",
]
