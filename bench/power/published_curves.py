"""Whole curves of published machines, from idle to full load, for evaluations of the prior.

SPECpower_ssj2008 results, watts at the wall at 0, 10, ... 100 % load. The machines are rows of the prior's
own table (`powermodels.models.published_machines`); each is left out of it during its evaluation. The
curves were taken from transcriptions in public simulators (CloudSim and its kin), not from spec.org itself;
where those do not name the CPU or the memory (the Dells), both are those of the machine as sold.
"""

from dataclasses import dataclass

from powermodels.common.interface import CpuIdentity, HostFacts

_GB = 10**9


@dataclass(frozen=True, slots=True)
class PublishedCurve:
    """One machine; `source` is its row in the prior's table."""

    source: str
    facts: HostFacts
    tdp_watts: float
    """The thermal design power of one CPU."""
    watts: tuple[float, ...]


def _intel(
    source: str,
    cpu: tuple[int, int],
    parts: tuple[int, int, int, int],
    tdp_watts: float,
    watts: tuple[float, ...],
) -> PublishedCurve:
    """A row: the CPU's model and stepping; sockets, cores, threads and GB of memory; TDP; the curve.

    Where its memory is not on record, one GB per thread is assumed.
    """
    model, stepping = cpu
    sockets, cores, threads, gigabytes = parts
    family = 15 if model == _NETBURST else 6
    facts = HostFacts(
        source,
        sockets,
        cores,
        threads,
        gigabytes * _GB,
        cpu=CpuIdentity("GenuineIntel", family, model, stepping),
    )
    return PublishedCurve(source, facts, tdp_watts, watts)


_NETBURST = 6

CURVES: tuple[PublishedCurve, ...] = (
    _intel(
        "HP ML110 G3, Pentium D 930",
        (6, 4),
        (1, 2, 2, 4),
        95,
        (105, 112, 118, 125, 131, 137, 147, 153, 157, 164, 169),
    ),
    _intel(
        "HP ML110 G4, Xeon 3040",
        (15, 6),
        (1, 2, 2, 4),
        65,
        (86, 89.4, 92.6, 96, 99.5, 102, 106, 108, 112, 114, 117),
    ),
    _intel(
        "HP ML110 G5, Xeon 3075",
        (15, 11),
        (1, 2, 2, 4),
        65,
        (93.7, 97, 101, 105, 110, 116, 121, 125, 129, 133, 135),
    ),
    _intel(
        "Supermicro 6025B-TR, Xeon 5160",
        (15, 6),
        (2, 4, 4, 16),
        80,
        (216, 221, 227, 235, 245, 258, 270, 282, 294, 307, 315),
    ),
    _intel(
        "Supermicro 6025B-TR, Xeon E5345",
        (15, 7),
        (2, 8, 8, 16),
        80,
        (220, 235, 249, 261, 273, 286, 298, 309, 319, 327, 334),
    ),
    _intel(
        "Fujitsu Siemens RX300 S4, Xeon E5440, Jan 2008",
        (23, 6),
        (2, 8, 8, 16),
        80,
        (166, 179, 191, 200, 212, 224, 235, 245, 252, 259, 265),
    ),
    _intel(
        "Dell 2950 III, Xeon E5440, Nov 2007",
        (23, 6),
        (2, 8, 8, 16),
        80,
        (157, 173, 189, 204, 217, 230, 243, 253, 262, 270, 276),
    ),
    _intel(
        "IBM x3650 M2, Xeon X5570",
        (26, 5),
        (2, 8, 16, 16),
        95,
        (81.4, 110, 125, 139, 153, 167, 182, 199, 214, 229, 244),
    ),
    _intel(
        "IBM x3250, Xeon X3470",
        (30, 5),
        (1, 4, 8, 8),
        95,
        (41.6, 46.7, 52.3, 57.9, 65.4, 73, 80.7, 89.5, 99.6, 105, 113),
    ),
    _intel(
        "IBM x3250, Xeon X3480",
        (30, 5),
        (1, 4, 8, 8),
        95,
        (42.3, 46.7, 49.7, 55.4, 61.8, 69.3, 76.1, 87, 96.1, 106, 113),
    ),
    _intel(
        "IBM x3550, Xeon X5670, Mar 2010",
        (44, 2),
        (2, 12, 24, 12),
        95,
        (66, 107, 120, 131, 143, 156, 173, 191, 211, 229, 247),
    ),
    _intel(
        "IBM x3550, Xeon X5675, Apr 2011",
        (44, 2),
        (2, 12, 24, 16),
        95,
        (58.4, 98, 109, 118, 128, 140, 153, 170, 189, 205, 222),
    ),
    _intel(
        "Dell R620, 16 cores, Mar 2012",
        (45, 7),
        (2, 16, 32, 24),
        95,
        (54.1, 78.4, 88.5, 99.5, 115, 126, 143, 165, 196, 226, 243),
    ),
    _intel(
        "Dell R720, 16 cores, Mar 2012",
        (45, 7),
        (2, 16, 32, 24),
        95,
        (51, 75, 84.5, 95, 110, 120, 137, 159, 187, 217, 231),
    ),
    _intel(
        "Dell T620, 16 cores, Mar 2012",
        (45, 7),
        (2, 16, 32, 24),
        95,
        (50.2, 73.7, 83.3, 93.8, 110, 119, 135, 156, 183, 212, 227),
    ),
    _intel(
        "Dell R820, Xeon E5-4650L",
        (45, 7),
        (4, 32, 64, 64),
        115,
        (110, 149, 167, 188, 218, 237, 268, 307, 358, 414, 446),
    ),
    _intel(
        "Huawei RH2288 V2, Xeon E5-2660, Feb 2012",
        (45, 7),
        (2, 16, 32, 32),
        95,
        (59.7, 87.2, 97.9, 109, 120, 133, 150, 171, 196, 231, 257),
    ),
    _intel(
        "Huawei RH2288 V2, Xeon E5-2670, Mar 2012",
        (45, 7),
        (2, 16, 32, 32),
        115,
        (55.6, 79.4, 90.5, 102, 112, 128, 148, 172, 200, 238, 282),
    ),
    _intel(
        "Huawei RH2288H V2, Xeon E5-2609",
        (45, 7),
        (2, 8, 8, 32),
        80,
        (68.7, 78.3, 84, 88.4, 92.5, 97.3, 104, 111, 121, 131, 137),
    ),
    _intel(
        "Acer Altos R380 F2, Xeon E5-2660, Apr 2013",
        (45, 7),
        (2, 16, 32, 24),
        95,
        (71.5, 89, 104, 122, 146, 174, 193, 213, 239, 295, 316),
    ),
    _intel(
        "Acer AR580 F2, Xeon E5-4650, Dec 2012",
        (45, 7),
        (4, 32, 64, 32),
        130,
        (134, 172, 202, 239, 286, 346, 405, 452, 490, 582, 667),
    ),
    _intel(
        "Dell R830, Xeon E5-4669 v4, Jul 2016",
        (79, 1),
        (4, 88, 176, 176),
        135,
        (86.4, 181, 215, 253, 287, 315, 340, 377, 421, 483, 562),
    ),
    _intel(
        "Dell R640, Xeon Platinum 8180, Aug 2017",
        (85, 4),
        (2, 56, 112, 192),
        205,
        (55, 125, 151, 176, 202, 232, 261, 301, 357, 421, 469),
    ),
    _intel(
        "Dell R740, Xeon Platinum 8180, Aug 2017",
        (85, 4),
        (2, 56, 112, 192),
        205,
        (52.3, 129, 147, 170, 195, 224, 255, 292, 344, 408, 457),
    ),
    _intel(
        "Dell R940, Xeon Platinum 8180, Oct 2017",
        (85, 4),
        (4, 112, 224, 384),
        205,
        (106, 245, 292, 336, 383, 437, 502, 583, 694, 820, 915),
    ),
)
