"""SPECpower_ssj2008 results that the prior's table does not hold: what it is measured against.

Not a blind test: its constants were chosen with some of these machines in view.
"""

from typing import NamedTuple

from powermodels.interface import CpuIdentity, HostFacts

INTEL, AMD = "GenuineIntel", "AuthenticAMD"


class Result(NamedTuple):
    """One published machine; watts at the wall."""

    name: str
    cpu: CpuIdentity
    sockets: int
    cores: int
    threads: int
    memory_gb: int
    idle_watts: float
    max_watts: float

    @property
    def facts(self) -> HostFacts:
        return HostFacts(
            self.name, self.sockets, self.cores, self.threads, self.memory_gb * 10**9, cpu=self.cpu
        )


def _intel(model: int, stepping: int) -> CpuIdentity:
    return CpuIdentity(INTEL, 6, model, stepping)


def _amd(family: int, model: int) -> CpuIdentity:
    return CpuIdentity(AMD, family, model)


RESULTS = (
    Result("Sugon I620-G30, Platinum 8180", _intel(85, 4), 2, 56, 112, 192, 54.6, 450),
    Result("Sugon I620-G30, Gold 5117", _intel(85, 4), 2, 28, 56, 192, 51.9, 245),
    Result("Sugon I620-G30, Gold 6140", _intel(85, 4), 2, 36, 72, 192, 52.4, 343),
    Result("Uniwide RC2212, Silver 4210", _intel(85, 7), 2, 20, 40, 768, 127, 291),
    Result("Supermicro 6029P-WTR, Platinum 8280", _intel(85, 7), 2, 56, 112, 192, 48.6, 385),
    Result("H3C R6700 G3, Platinum 8280L", _intel(85, 7), 4, 112, 224, 384, 94.2, 915),
    Result("Fujitsu RX2530 M6, Platinum 8380", _intel(106, 6), 2, 80, 160, 256, 131, 580),
    Result("H3C R4700 G5, Platinum 8360Y", _intel(106, 6), 2, 72, 144, 512, 133, 653),
    Result("HPE DL110 Gen10 Plus, Gold 6314U", _intel(106, 6), 1, 32, 64, 64, 94.1, 299),
    Result("Supermicro 741GE-TNRT, Platinum 8490H", _intel(143, 8), 2, 120, 240, 512, 194, 957),
    Result("Supermicro 521E-WR, Gold 6414U", _intel(143, 8), 1, 32, 64, 128, 87.6, 347),
    Result("HPE DL110 Gen11, Gold 6438N", _intel(143, 8), 1, 32, 64, 128, 108, 304),
    Result("HPE ML350 Gen11, Platinum 8480+", _intel(143, 8), 2, 112, 224, 256, 154, 611),
    Result("Quanta D54Q-2U, Platinum 8592+", _intel(207, 2), 2, 128, 256, 512, 152, 968),
    Result("HPE DL340 Gen12, Xeon 6787P", _intel(173, 1), 1, 86, 172, 128, 123, 491),
    Result("xFusion 2288H V8, Xeon 6980P", _intel(173, 1), 2, 256, 512, 768, 267, 1398),
    Result("Supermicro 112C-TN, Xeon 6780E", _intel(175, 3), 1, 144, 144, 256, 106, 427),
    Result("ASUS RS500A-E10-PS4, EPYC 7742", _amd(23, 49), 1, 64, 128, 128, 51.4, 214),
    Result("Supermicro 1123US-TR4, EPYC 7702", _amd(23, 49), 2, 128, 256, 512, 99.2, 412),
    Result("Sugon A620-G30, EPYC 7351", _amd(23, 1), 2, 32, 64, 128, 103, 278),
    Result("Supermicro 1123US-TR4, EPYC 7501", _amd(23, 1), 2, 64, 128, 512, 98.4, 303),
    Result("ASUS RS700A-E11-RS4U, EPYC 7763", _amd(25, 1), 2, 128, 256, 256, 122, 406),
    Result("Quanta D43K-1U, EPYC 7763", _amd(25, 1), 2, 128, 256, 256, 78.5, 453),
    Result("ASUS RS720A-E12-RS12, EPYC 9654", _amd(25, 17), 2, 192, 384, 384, 128, 817),
    Result("Quanta S44NL-1U, EPYC 9654", _amd(25, 17), 1, 96, 192, 192, 73.2, 360),
    Result("Supermicro AS-1115SV-WTNRT, EPYC 8534P", _amd(25, 160), 1, 64, 128, 96, 74.7, 236),
    Result("Supermicro AS-1115SV-WTNRT, EPYC 8124P", _amd(25, 160), 1, 16, 32, 96, 68.2, 135),
    Result("Supermicro AS-1015SV-WTNRT, EPYC 8024P", _amd(25, 160), 1, 8, 16, 96, 62.1, 104),
    Result("Quanta S44NL-1U, EPYC 9754", _amd(25, 160), 1, 128, 256, 192, 70.4, 342),
    Result("ASUS RS720A-E13-RS8U, EPYC 9965", _amd(26, 17), 2, 384, 768, 384, 150, 800),
    Result("Quanta S44NL-1U, EPYC 9755", _amd(26, 2), 1, 128, 256, 192, 76.3, 449),
    Result("Fujitsu RX1440 M2, EPYC 9845", _amd(26, 17), 1, 160, 320, 384, 69.3, 367),
    Result("Supermicro AS-3015A-i, EPYC 4344P", _amd(25, 97), 1, 8, 16, 64, 42.8, 78.2),
    Result("Fujitsu RX300 S7, E5-2660", _intel(45, 7), 2, 16, 32, 24, 54, 245),
    Result("Acer AR380 F2, E5-2640", _intel(45, 7), 2, 12, 24, 32, 81.9, 254),
    Result("Acer AR380 F2, E5-2630", _intel(45, 7), 2, 12, 24, 128, 99.6, 325),
    Result("Acer AR380 F2, E5-2665", _intel(45, 7), 2, 16, 32, 128, 103, 409),
    Result("Fujitsu RX500 S7, E5-4640", _intel(45, 7), 4, 32, 64, 48, 97.1, 420),
    Result("HP DL380p Gen8, E5-2620", _intel(45, 7), 2, 12, 24, 128, 162, 280),
    Result("HP DL360 G7, L5640", _intel(44, 2), 2, 12, 24, 16, 54.6, 178),
    Result("HP DL360 G7, X5675", _intel(44, 2), 2, 12, 24, 16, 55.6, 216),
    Result("Acer Altos G540 M2, X5570", _intel(26, 5), 2, 8, 16, 8, 121, 254),
    Result("HP DL380 G6, L5530", _intel(26, 5), 2, 8, 16, 8, 63.7, 187),
    Result("ASUS RS160-E5, L5420", _intel(23, 10), 2, 8, 8, 8, 86, 170),
    Result("ASUS RS100-E5, X3360", _intel(23, 10), 1, 4, 4, 4, 56.7, 118),
    Result("SGI Altix XE320, E5472", _intel(23, 6), 2, 8, 8, 16, 156, 287),
    Result("Acer AR585 F1, Opteron 6174", _amd(16, 9), 4, 48, 48, 32, 143, 518),
    Result("HP DL385p Gen8, Opteron 6380", _amd(21, 2), 2, 32, 32, 64, 66.6, 306),
    Result("Supermicro 1022G-NTF, Opteron 6262 HE", _amd(21, 1), 2, 32, 32, 32, 70.3, 213),
    Result("Acer AC100, E3-1260L", _intel(42, 7), 1, 4, 8, 8, 21.5, 58),
    Result("Fujitsu TX120 S3p, E3-1265L v2", _intel(58, 9), 1, 4, 8, 8, 15.7, 56.2),
    Result("Supermicro 1028R-WC1RT, E5-2699 v3", _intel(63, 2), 2, 36, 72, 32, 75.9, 302),
    Result("H3C UIS R390x G2, E5-2699 v4", _intel(79, 1), 2, 44, 88, 64, 40.1, 252),
)

# Watts at 0, 10, ... 100 % load.
CURVES = (
    (
        HostFacts("Xeon 3040", 1, 2, 2, 4 * 10**9, cpu=_intel(15, 6)),
        (86, 89.4, 92.6, 96, 99.5, 102, 106, 108, 112, 114, 117),
    ),
    (
        HostFacts("Xeon 3075", 1, 2, 2, 4 * 10**9, cpu=_intel(15, 11)),
        (93.7, 97, 101, 105, 110, 116, 121, 125, 129, 133, 135),
    ),
    (
        HostFacts("Xeon X3470", 1, 4, 8, 8 * 10**9, cpu=_intel(30, 5)),
        (41.6, 46.7, 52.3, 57.9, 65.4, 73, 80.7, 89.5, 99.6, 105, 113),
    ),
    (
        HostFacts("Xeon X5675", 2, 12, 24, 16 * 10**9, cpu=_intel(44, 2)),
        (58.4, 98, 109, 118, 128, 140, 153, 170, 189, 205, 222),
    ),
    (
        HostFacts("Xeon X5670", 2, 12, 24, 12 * 10**9, cpu=_intel(44, 2)),
        (66, 107, 120, 131, 143, 156, 173, 191, 211, 229, 247),
    ),
)
