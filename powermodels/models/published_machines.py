"""Published idle and full-load power of whole servers, which the prior is based on.

Every row is one SPECpower_ssj2008 result (spec.org/power_ssj2008/results): wall power of the machine at
active idle and at 100 % load, under the name of its CPU's generation. `prior` explains how they are used, and
`bench.power.published_curves` the origin of those with whole curves.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware and wall power of a published machine."""

    source: str
    """Vendor and model, CPU, and date of publication."""
    sockets: int
    cores: int
    idle_watts: float
    max_watts: float
    threads_per_core: int = 2
    memory_gb: int | None = None

    @property
    def threads(self) -> int:
        return self.cores * self.threads_per_core

    @property
    def cores_per_socket(self) -> float:
        return self.cores / self.sockets

    @property
    def dynamic_watts(self) -> float:
        return self.max_watts - self.idle_watts


_A53_BOARDS = "XSLAB V-Raptor SQ, 384 Cortex-A53 cores, Dec 2021; counted as boards of four cores"

MACHINES: Mapping[str, tuple[Machine, ...]] = {
    "Intel NetBurst": (
        Machine("HP ML110 G3, Pentium D 930", 1, 2, 105, 169, threads_per_core=1, memory_gb=4),
        Machine("Intel SE7520AF2, Xeon 3.6 GHz, Nov 2007", 2, 2, 159, 336),
    ),
    "Intel Core 2 server": (
        Machine("Fujitsu Siemens RX300 S3, Xeon L5335, Dec 2007", 2, 8, 187, 260, threads_per_core=1),
        Machine("Supermicro 6025B-TR, Xeon 5160", 2, 4, 216, 315, threads_per_core=1, memory_gb=16),
        Machine("Supermicro 6025B-TR, Xeon E5345", 2, 8, 220, 334, threads_per_core=1, memory_gb=16),
        Machine("HP ML110 G4, Xeon 3040", 1, 2, 86, 117, threads_per_core=1, memory_gb=4),
        Machine("HP ML110 G5, Xeon 3075", 1, 2, 93.7, 135, threads_per_core=1, memory_gb=4),
    ),
    "Intel Penryn server": (
        Machine("Fujitsu RX300 S4, Xeon L5430, Mar 2009", 2, 8, 147, 235, threads_per_core=1),
        Machine("ASUS RS160-E5, L5420", 2, 8, 86, 170, threads_per_core=1, memory_gb=8),
        Machine("ASUS RS100-E5, X3360", 1, 4, 56.7, 118, threads_per_core=1, memory_gb=4),
        Machine("SGI Altix XE320, E5472", 2, 8, 156, 287, threads_per_core=1, memory_gb=16),
        Machine(
            "Fujitsu Siemens RX300 S4, Xeon E5440, Jan 2008", 2, 8, 166, 265, threads_per_core=1, memory_gb=16
        ),
        Machine("Dell 2950 III, Xeon E5440, Nov 2007", 2, 8, 157, 276, threads_per_core=1, memory_gb=16),
    ),
    "Intel Nehalem server": (
        Machine("HP DL360 G6, Xeon X5570, Apr 2009", 2, 8, 88.4, 245),
        Machine("Acer Altos G540 M2, X5570", 2, 8, 121, 254, memory_gb=8),
        Machine("HP DL380 G6, L5530", 2, 8, 63.7, 187, memory_gb=8),
        Machine("IBM x3650 M2, Xeon X5570", 2, 8, 81.4, 244),
    ),
    "Intel Nehalem desktop": (
        Machine("IBM x3250, Xeon X3470", 1, 4, 41.6, 113, memory_gb=8),
        Machine("IBM x3250, Xeon X3480", 1, 4, 42.3, 113, memory_gb=8),
    ),
    "Intel Westmere server": (
        Machine("HP DL360 G6, Xeon X5670, Apr 2010", 2, 12, 68.9, 250),
        Machine("HP DL360 G7, L5640", 2, 12, 54.6, 178, memory_gb=16),
        Machine("HP DL360 G7, X5675", 2, 12, 55.6, 216, memory_gb=16),
        Machine("IBM x3550, Xeon X5675, Apr 2011", 2, 12, 58.4, 222, memory_gb=16),
        Machine("IBM x3550, Xeon X5670, Mar 2010", 2, 12, 66, 247, memory_gb=12),
    ),
    "Intel Sandy Bridge desktop": (
        Machine("Acer AT110 F2, Xeon E3-1270, May 2011", 1, 4, 21.3, 102),
        Machine("Acer AC100, E3-1260L", 1, 4, 21.5, 58, memory_gb=8),
    ),
    "Intel Sandy or Ivy Bridge server": (
        Machine("Acer Altos R360 F2, Xeon E5-2660, Jul 2013", 2, 16, 72.4, 258),
        Machine("Fujitsu RX300 S7, E5-2660", 2, 16, 54, 245, memory_gb=24),
        Machine("Acer AR380 F2, E5-2640", 2, 12, 81.9, 254, memory_gb=32),
        Machine("Acer AR380 F2, E5-2630", 2, 12, 99.6, 325, memory_gb=128),
        Machine("Acer AR380 F2, E5-2665", 2, 16, 103, 409, memory_gb=128),
        Machine("Fujitsu RX500 S7, E5-4640", 4, 32, 97.1, 420, memory_gb=48),
        Machine("HP DL380p Gen8, E5-2620", 2, 12, 162, 280, memory_gb=128),
        Machine("Dell R620, 16 cores, Mar 2012", 2, 16, 54.1, 243, memory_gb=24),
        Machine("Dell R720, 16 cores, Mar 2012", 2, 16, 51, 231, memory_gb=24),
        Machine("Dell T620, 16 cores, Mar 2012", 2, 16, 50.2, 227, memory_gb=24),
        Machine("Dell R820, Xeon E5-4650L", 4, 32, 110, 446),
        Machine("Huawei RH2288 V2, Xeon E5-2660, Feb 2012", 2, 16, 59.7, 257, memory_gb=32),
        Machine("Huawei RH2288 V2, Xeon E5-2670, Mar 2012", 2, 16, 55.6, 282, memory_gb=32),
        Machine("Huawei RH2288H V2, Xeon E5-2609", 2, 8, 68.7, 137, threads_per_core=1, memory_gb=32),
        Machine("Acer Altos R380 F2, Xeon E5-2660, Apr 2013", 2, 16, 71.5, 316, memory_gb=24),
        Machine("Acer AR580 F2, Xeon E5-4650, Dec 2012", 4, 32, 134, 667, memory_gb=32),
    ),
    "Intel Ivy Bridge desktop": (
        Machine("Fujitsu TX100 S3p, Xeon E3-1240 v2, Aug 2012", 1, 4, 14.1, 72.5),
        Machine("Fujitsu TX120 S3p, E3-1265L v2", 1, 4, 15.7, 56.2, memory_gb=8),
    ),
    "Intel Haswell desktop": (Machine("Fujitsu RX100 S8, Xeon E3-1265L v3, Nov 2013", 1, 4, 17.7, 69.8),),
    "Intel Haswell server": (
        Machine("Sugon I620-G20, Xeon E5-2699 v3, Mar 2015", 2, 36, 52.5, 264),
        Machine("Supermicro 1028R-WC1RT, E5-2699 v3", 2, 36, 75.9, 302, memory_gb=32),
    ),
    "Intel Broadwell server": (
        Machine("Quanta D51B-2U, Xeon E5-2699 v4, Jun 2016", 2, 44, 46.6, 247),
        Machine("H3C UIS R390x G2, E5-2699 v4", 2, 44, 40.1, 252, memory_gb=64),
        Machine("Dell R830, Xeon E5-4669 v4, Jul 2016", 4, 88, 86.4, 562),
    ),
    "Intel Skylake to Comet Lake desktop": (
        Machine("Quanta S31A-1U, Xeon E3-1260L v5, Jun 2016", 1, 4, 14.4, 47.9),
    ),
    "Intel Skylake server": (
        Machine("Sugon I620-G30, Xeon Platinum 8160, Aug 2018", 2, 48, 53.4, 387),
        Machine("Sugon I620-G30, Platinum 8180", 2, 56, 54.6, 450, memory_gb=192),
        Machine("Sugon I620-G30, Gold 5117", 2, 28, 51.9, 245, memory_gb=192),
        Machine("Sugon I620-G30, Gold 6140", 2, 36, 52.4, 343, memory_gb=192),
        Machine("Dell R640, Xeon Platinum 8180, Aug 2017", 2, 56, 55, 469, memory_gb=192),
        Machine("Dell R740, Xeon Platinum 8180, Aug 2017", 2, 56, 52.3, 457, memory_gb=192),
        Machine("Dell R940, Xeon Platinum 8180, Oct 2017", 4, 112, 106, 915, memory_gb=384),
    ),
    "Intel Cascade or Cooper Lake server": (
        Machine("ASUS RS720-E9-RS8, Xeon Platinum 8280L, Jul 2019", 2, 56, 62.4, 412),
        Machine("Uniwide RC2212, Silver 4210", 2, 20, 127, 291, memory_gb=768),
        Machine("Supermicro 6029P-WTR, Platinum 8280", 2, 56, 48.6, 385, memory_gb=192),
        Machine("H3C R6700 G3, Platinum 8280L", 4, 112, 94.2, 915, memory_gb=384),
    ),
    "Intel Ice Lake server": (
        Machine("ASUS RS720-E10, Xeon Platinum 8380, Jan 2022", 2, 80, 110, 623),
        Machine("Fujitsu RX2530 M6, Platinum 8380", 2, 80, 131, 580, memory_gb=256),
        Machine("H3C R4700 G5, Platinum 8360Y", 2, 72, 133, 653, memory_gb=512),
        Machine("HPE DL110 Gen10 Plus, Gold 6314U", 1, 32, 94.1, 299, memory_gb=64),
    ),
    "Intel Ice Lake to Raptor Lake desktop": (
        Machine("Fujitsu RX1330 M6, Xeon 6369P, Apr 2025", 1, 8, 17.8, 99.6),
    ),
    "Intel Sapphire Rapids server": (
        Machine("xFusion 2288H V7, Xeon Platinum 8480+, Jan 2023", 2, 112, 147, 836),
        Machine("Supermicro 741GE-TNRT, Platinum 8490H", 2, 120, 194, 957, memory_gb=512),
        Machine("Supermicro 521E-WR, Gold 6414U", 1, 32, 87.6, 347, memory_gb=128),
        Machine("HPE DL110 Gen11, Gold 6438N", 1, 32, 108, 304, memory_gb=128),
        Machine("HPE ML350 Gen11, Platinum 8480+", 2, 112, 154, 611, memory_gb=256),
    ),
    "Intel Emerald Rapids server": (
        Machine("xFusion 2288H V7, Xeon Platinum 8592+, Mar 2025", 2, 128, 160, 827),
        Machine("Quanta D54Q-2U, Platinum 8592+", 2, 128, 152, 968, memory_gb=512),
    ),
    "Intel Granite Rapids server": (
        Machine("HPE DL380a Gen12, Xeon 6787P, Feb 2025", 2, 172, 205, 941),
        Machine("HPE DL340 Gen12, Xeon 6787P", 1, 86, 123, 491, memory_gb=128),
        Machine("xFusion 2288H V8, Xeon 6980P", 2, 256, 267, 1398, memory_gb=768),
    ),
    "Intel Sierra Forest server": (
        Machine("HPE DL380 Gen12, Xeon 6780E, Feb 2025", 2, 288, 220, 801, threads_per_core=1),
        Machine("Supermicro 112C-TN, Xeon 6780E", 1, 144, 106, 427, threads_per_core=1, memory_gb=256),
    ),
    "AMD Magny-Cours server": (
        Machine("HP DL385 G7, Opteron 6174, Apr 2010", 2, 24, 101, 271, threads_per_core=1),
        Machine("Acer AR585 F1, Opteron 6174", 4, 48, 143, 518, threads_per_core=1, memory_gb=32),
    ),
    "AMD K10 server": (Machine("HP DL385 G6, Opteron 2435, Aug 2009", 2, 12, 124, 260, threads_per_core=1),),
    "AMD Bulldozer or Piledriver server": (
        Machine("HP DL165 G7, Opteron 6276, Nov 2011", 2, 32, 68.9, 308, threads_per_core=1),
        Machine("HP DL385p Gen8, Opteron 6380", 2, 32, 66.6, 306, threads_per_core=1, memory_gb=64),
        Machine("Supermicro 1022G-NTF, Opteron 6262 HE", 2, 32, 70.3, 213, threads_per_core=1, memory_gb=32),
    ),
    "AMD EPYC, 1st generation": (
        Machine("Sugon A620-G30, EPYC 7601, Jul 2018", 2, 64, 94.9, 296),
        Machine("Sugon A620-G30, EPYC 7351", 2, 32, 103, 278, memory_gb=128),
        Machine("Supermicro 1123US-TR4, EPYC 7501", 2, 64, 98.4, 303, memory_gb=512),
    ),
    "AMD EPYC, 2nd generation": (
        Machine("ASUS RS700A-E9-RS4V2, EPYC 7742, Apr 2020", 2, 128, 106, 430),
        Machine("ASUS RS500A-E10-PS4, EPYC 7742", 1, 64, 51.4, 214, memory_gb=128),
        Machine("Supermicro 1123US-TR4, EPYC 7702", 2, 128, 99.2, 412, memory_gb=512),
    ),
    "AMD EPYC, 3rd generation": (
        Machine("Gigabyte R282-Z90, EPYC 7773X, Aug 2022", 2, 128, 112, 515),
        Machine("ASUS RS700A-E11-RS4U, EPYC 7763", 2, 128, 122, 406, memory_gb=256),
        Machine("Quanta D43K-1U, EPYC 7763", 2, 128, 78.5, 453, memory_gb=256),
    ),
    "AMD EPYC, 4th generation": (
        Machine("Quanta D44N-1U, EPYC 9654, Jan 2024", 2, 192, 129, 692),
        Machine("ASUS RS720A-E12-RS12, EPYC 9654", 2, 192, 128, 817, memory_gb=384),
        Machine("Quanta S44NL-1U, EPYC 9654", 1, 96, 73.2, 360, memory_gb=192),
    ),
    "AMD EPYC, 4th generation, dense cores": (
        Machine("Quanta D44N-1U, EPYC 9754, May 2024", 2, 256, 116, 668),
        Machine("Supermicro AS-1115SV-WTNRT, EPYC 8534P", 1, 64, 74.7, 236, memory_gb=96),
        Machine("Supermicro AS-1115SV-WTNRT, EPYC 8124P", 1, 16, 68.2, 135, memory_gb=96),
        Machine("Supermicro AS-1015SV-WTNRT, EPYC 8024P", 1, 8, 62.1, 104, memory_gb=96),
        Machine("Quanta S44NL-1U, EPYC 9754", 1, 128, 70.4, 342, memory_gb=192),
    ),
    "AMD EPYC, 5th generation": (
        Machine("Quanta D44N-1U, EPYC 9755, Oct 2024", 2, 256, 130, 931),
        Machine("Quanta S44NL-1U, EPYC 9755", 1, 128, 76.3, 449, memory_gb=192),
    ),
    "AMD EPYC, 5th generation, dense cores": (
        Machine("Quanta D44N-1U, EPYC 9965, Jul 2025", 2, 384, 128, 834),
        Machine("ASUS RS720A-E13-RS8U, EPYC 9965", 2, 384, 150, 800, memory_gb=384),
        Machine("Fujitsu RX1440 M2, EPYC 9845", 1, 160, 69.3, 367, memory_gb=384),
    ),
    "AMD Zen 4 desktop": (
        Machine("Supermicro AS-3015A-i, EPYC 4584PX, May 2024", 1, 16, 43.5, 112),
        Machine("Supermicro AS-3015A-i, EPYC 4344P", 1, 8, 42.8, 78.2, memory_gb=64),
    ),
    "ARM Neoverse N1 server": (
        Machine("Gigabyte R152-P31, Ampere Altra Max M128-30, Jun 2023", 1, 128, 79, 268, threads_per_core=1),
    ),
    "ARM Neoverse V2 server": (
        Machine(
            "Supermicro ARS-221GL-NR, Grace CPU Superchip, Jul 2024", 2, 144, 298, 619, threads_per_core=1
        ),
    ),
    "ARM Cortex-A board": (Machine(_A53_BOARDS, 96, 384, 206, 269, threads_per_core=1),),
}
