"""The calls of spcl/DNN-cpp-proxies by rank numbers: a description of its own, without axes.

A call is ``(kind, ranks, elements)``: of a collective its group and, as MPI counts them, the
elements of an all_reduce, those that a rank gives to an all_gather, gets from a reduce_scatter or
sends to each peer of an all_to_all; of a message the other end. ``("sleep", µs)`` computes and
``("wait", n)`` waits for n calls, for one right after it where that blocks.
"""


def blocking(*call):
    return [call, ("wait", 1)]


def layerwise(rank, ranks, layers, stages, micro_batches, activation, first, middle, last):
    """gpt2_large and bert_large."""
    stage, each = rank % stages, layers // stages
    calls = []
    for up in (1, -1):
        following, before = stage + up, stage - up
        for _ in range(micro_batches):
            posted = []
            if 0 <= following < stages:
                posted.append(("send", (rank + up,), activation))
            if 0 <= before < stages:
                posted.append(("recv", (rank - up,), activation))
            calls += [*posted, ("wait", len(posted))]
    if ranks > stages:
        sizes = [middle] * each
        if stage == 0:
            sizes[0] = first
        if stage == stages - 1:
            sizes[-1] = last
        group = tuple(range(stage, ranks, stages))
        for elements in sizes:
            calls += blocking("all_reduce", group, elements)
    return calls


def gpt2_large(rank, ranks, layers=48, stages=4, micro_batches=8):
    sizes = (808_960, 85_317_120, 19_677_440, 84_008_960)
    return layerwise(rank, ranks, layers, stages, micro_batches, *sizes)


def bert_large(rank, ranks, layers=24, stages=4, micro_batches=8):
    sizes = (1_049_600, 44_379_136, 12_596_224, 45_984_572)
    return layerwise(rank, ranks, layers, stages, micro_batches, *sizes)


def pipeline(rank, stages, micro_batches, sleeps, operator):
    """The passes of gpt3 and gpt3_moe."""
    calls = []
    for up, sleep in zip((1, -1), sleeps, strict=True):
        following, before = rank % stages + up, rank % stages - up
        sends = 0 <= following < stages
        for number in range(micro_batches):
            if 0 <= before < stages:
                calls += blocking("recv", (rank - up,), 25_165_824)
            if sends and number:
                calls.append(("wait", 1))
            calls.append(("sleep", sleep))
            if sends:
                calls.append(("send", (rank + up,), 25_165_824))
            calls += 2 * operator
    return calls


def pair(rank, stages, sleeps, operator):
    """gpt3_one_pipe_step and gpt3_moe_one_pipe_step."""
    odd = rank % stages % 2
    other = (rank - 1 if odd else rank + 1,)
    message = (other, 25_165_824)
    return [
        ("recv", *message),
        ("sleep", sleeps[odd]),
        *operator,
        *operator,
        ("send", *message),
        ("wait", 2),
    ]


def tensor_sum(rank, stages):
    start = rank // (4 * stages) * 4 * stages + rank % stages
    return blocking("all_reduce", tuple(start + i * stages for i in range(4)), 25_165_824)


def gpt3(rank, ranks, stages=96, scale=None):
    micro_batches = stages * scale if scale else 192
    calls = pipeline(rank, stages, micro_batches, (15_915, 31_830), tensor_sum(rank, stages))
    group = tuple(range(rank % (4 * stages), ranks, 4 * stages))
    return calls + blocking("all_reduce", group, 452_984_832)


def gpt3_one_pipe_step(rank, _ranks, stages=96):
    return pair(rank, stages, (15_915, 31_830), tensor_sum(rank, stages))


def token_exchange(rank, stages):
    first = rank // stages // 16 * 16
    group = tuple(q * stages + rank % stages for q in range(first, first + 16))
    return blocking("all_to_all", group, 1_572_864)


MOE_SLEEPS = (22_367 + 2_580, 44_734 + 5_161)


def gpt3_moe(rank, ranks, stages=96, scale=None):
    micro_batches = stages * scale if scale else 192
    calls = pipeline(rank, stages, micro_batches, MOE_SLEEPS, token_exchange(rank, stages))
    alike = tuple(range(rank % stages, ranks, stages))
    experts = tuple(other for q, other in enumerate(alike) if q % 16 == rank // stages % 16)
    calls += blocking("all_reduce", experts, 75_497_472)
    return calls + blocking("all_reduce", alike, 603_979_776)


def gpt3_moe_one_pipe_step(rank, _ranks, stages=96):
    return pair(rank, stages, MOE_SLEEPS, token_exchange(rank, stages))


def cosmoflow(rank, ranks):
    model = tuple(range(rank // 4 * 4, rank // 4 * 4 + 4))
    dense, everyone = tuple(range(rank % 4, ranks, 4)), tuple(range(ranks))

    def halo(elements):
        both = (rank ^ 1,), (rank ^ 2,)
        return [(way, other, elements) for way in ("send", "recv") for other in both] + [
            ("wait", 4)
        ]

    calls = [("sleep", 6567)]
    halos = (2_097_152, 1_048_576, 524_288, 262_144)
    for elements, sleep in zip(halos, (13135, 6567, 3283, 1641), strict=True):
        calls += [*halo(elements), ("sleep", sleep)]
    for elements, sleep in ((65_536, 5), (256, 3), (128, 1)):
        calls += [*blocking("all_gather", model, elements), ("sleep", sleep)]
    for elements, sleep in ((128, 2), (256, 6), (65_536, 10)):
        calls += [("sleep", sleep), *blocking("reduce_scatter", model, elements)]
    calls.append(("all_reduce", dense, 1_050_737))
    halos = (131_072, 262_144, 524_288, 1_048_576)
    sums = (3_539_456, 884_992, 221_312, 55_360)
    for elements, total, sleep in zip(halos, sums, (3283, 6567, 13135, 26270), strict=True):
        calls += [("sleep", sleep), *halo(elements), ("all_reduce", everyone, total)]
    return [*calls, ("sleep", 13135), ("all_reduce", everyone, 3_488), ("wait", 6)]


def dlrm(_rank, ranks):
    everyone = tuple(range(ranks))
    exchange = blocking("all_to_all", everyone, 262_144 // ranks)
    return [
        ("sleep", 95),
        *exchange,
        *(("sleep", sleep) for sleep in (341, 209, 455, 910)),
        ("all_reduce", everyone, 728_065),
        ("sleep", 209),
        ("sleep", 682),
        ("all_reduce", everyone, 49_536),
        *exchange,
        ("sleep", 190),
        ("wait", 2),
    ]


RESNET50 = (3_104_745, 4_461_568, 4_462_592, 4_986_880, 4_468_736, 4_074_560)
RESNET152 = (
    *(6_511_592, 6_567_936, 5_905_920, 6_113_280, 6_176_256),
    *(6_112_768, 6_176_256, 6_112_768, 5_321_216, 5_194_816),
)


def resnet50(_rank, ranks):
    everyone = tuple(range(ranks))
    return [call for elements in RESNET50 for call in blocking("all_reduce", everyone, elements)]


def resnet50_ring(rank, ranks):
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    return [
        call
        for elements in RESNET50
        for call in (("recv", (left,), elements), ("send", (right,), elements), ("wait", 2))
    ]


def resnet152(_rank, ranks, forward=119_000, backward=23_800):
    calls = [("sleep", forward)]
    for elements in RESNET152:
        calls += [("sleep", backward), ("all_reduce", tuple(range(ranks)), elements)]
    return [*calls, ("wait", 10)]


def resnet152_scal(rank, ranks):
    forward, backward = {
        256: (119_000, 23_800),
        512: (63_000, 12_600),
        1024: (36_000, 7_200),
        2048: (27_667, 5_533),
    }[ranks]
    return resnet152(rank, ranks, forward, backward)
