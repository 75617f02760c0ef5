"""CosmoFlow in space: every byte by hand, and every rank meets its neighbours."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from steptime.cluster import cluster_named
from steptime.errors import UsageError
from steptime.program import Collective, Compute, Recv, Send, check, match_calls
from steptime.simulate.step import simulate
from steptime.timeline import Phase
from steptime.workloads.compat import compat
from steptime.workloads.models import model_named
from steptime.workloads.models.families.cosmoflow import VolumeNetwork, cosmoflow
from steptime.workloads.spatial import halos, spatial

MODEL = cosmoflow("cosmoflow")
ELEMENT = 4
SAMPLES = 8


def ops_of(program, kind, rank=0):
    return [op for op in program.lists[program.class_of[rank]] if isinstance(op, kind)]


def calls(program, kind):
    """Elements of each collective of a kind that rank 0 calls, by name."""
    return {
        op.name.removeprefix(f"{kind} "): op.nbytes // ELEMENT
        for op in ops_of(program, Collective)
        if op.kind == kind
    }


def test_the_geometry_is_that_of_the_parameters():
    assert isinstance(model_named("cosmoflow"), VolumeNetwork)
    sizes = [(c.inputs, c.outputs, c.side) for c in MODEL.convolutions]
    assert sizes == [(4, 32, 128), (32, 64, 64), (64, 128, 32), (128, 256, 16), (256, 512, 8)]
    for layer, unit in zip(MODEL.convolutions, MODEL.units, strict=False):
        assert unit.parameters == layer.inputs * layer.outputs * 27 + layer.outputs
        assert unit.activations == layer.outputs * (layer.side // 2) ** 3
    assert [(d.inputs, d.outputs) for d in MODEL.dense] == [(32768, 128), (128, 64), (64, 4)]
    assert MODEL.parameters == 8_907_556


@pytest.mark.parametrize(
    ("number", "across_one", "across_two"),
    [
        (2, 32 * 64 * 64, (32 * 64 * 32, 32 * 64 * 33)),
        (3, 64 * 32 * 32, (64 * 32 * 16, 64 * 32 * 17)),
        (4, 128 * 16 * 16, (128 * 16 * 8, 128 * 16 * 9)),
        (5, 256 * 8 * 8, (256 * 8 * 4, 256 * 8 * 5)),
    ],
)
def test_a_halo_is_a_plane_of_every_channel_and_takes_the_corners_along(
    number, across_one, across_two: tuple[int, int]
):
    layer = MODEL.convolutions[number - 1]
    assert halos(layer, 0) == ()
    assert halos(layer, 1) == (across_one,)
    assert halos(layer, 2) == across_two
    program = spatial(MODEL, tensor=4, data=1, batch=SAMPLES)
    for kind in (Send, Recv):
        moved = [
            (op.name.split()[-1], op.nbytes)
            for op in ops_of(program, kind)
            if f"conv{number} " in op.name
        ]
        x, y = (SAMPLES * ELEMENT * count for count in across_two)
        assert moved == [("x", x), ("y", y), ("y", y), ("x", x)]  # forward, then backward


def test_a_kernel_of_5_reaches_two_planes_over_a_cut():
    wide = replace(MODEL.convolutions[2], kernel=5)
    assert halos(wide, 2) == (64 * 2 * 16 * 32, 64 * 2 * 18 * 32)


def test_what_arrives_with_the_halos_is_all_that_a_convolution_reads_beyond_its_own():
    # The places within reach of a quarter that are not its own: an L of one plane, corner included.
    for layer in MODEL.convolutions[1:]:
        half = layer.side // 2
        needed = layer.inputs * layer.side * ((half + 1) ** 2 - half**2)
        assert sum(halos(layer, 2)) == needed


def test_the_first_convolution_sends_nothing_and_takes_part_in_the_sum():
    program = spatial(MODEL, tensor=4, data=2, batch=16)
    assert not [op for op in ops_of(program, Send) if "conv1" in op.name]
    assert calls(program, "all_reduce")["conv1"] == 4 * 32 * 27 + 32


def test_dense_layers_gather_their_inputs_and_scatter_gradients_of_them():
    program = spatial(MODEL, tensor=4, data=2, batch=2 * SAMPLES)
    expected = {"dense1": 8 * 32768, "dense2": 8 * 128, "dense3": 8 * 64}
    assert calls(program, "all_gather") == calls(program, "reduce_scatter") == expected
    gathered = [op.name for op in ops_of(program, Collective) if op.kind == "all_gather"]
    scattered = [op.name for op in ops_of(program, Collective) if op.kind == "reduce_scatter"]
    assert [name[-1] for name in gathered] == ["1", "2", "3"]
    assert [name[-1] for name in scattered] == ["3", "2", "1"]


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_all_parameters_are_summed_once_among_those_that_hold_them(tensor):
    program = spatial(MODEL, tensor=tensor, data=3, batch=12)
    sums = [op for op in ops_of(program, Collective) if op.kind == "all_reduce"]
    counts = {op.name.split()[1]: op.nbytes // ELEMENT for op in sums}
    dense = counts.pop("dense")
    assert dense * tensor == 4_202_948
    assert list(counts.values()) == [3539456, 884992, 221312, 55360, 3488]
    assert sum(counts.values()) + tensor * dense == MODEL.parameters
    groups = {op.name.split()[1]: op.group for op in sums}
    assert groups["dense"] == ("data",)
    assert groups["conv5"] == (("tensor", "data") if tensor > 1 else ("data",))


def test_sums_hide_behind_what_backward_still_computes():
    program = spatial(MODEL, tensor=4, data=2, batch=16)
    ops = program.lists[0]
    filled = {op.name: ops[op.after[0]].name for op in ops_of(program, Collective) if op.after}
    assert filled["all_reduce conv5"] == "backward weight conv5"
    assert filled["all_reduce dense"] == "backward weight dense1"
    place = {op.name: number for number, op in enumerate(ops)}
    assert place["all_reduce conv5"] < place["backward input conv4"]
    # the halo's gradient is under way while that of the weights is computed
    assert place["receive gradient of halo conv5 x"] < place["backward weight conv5"]
    (before,) = ops[place["backward input conv4"]].after
    assert ops[before].name == "receive gradient of halo conv5 x"


def test_the_second_exchange_waits_for_the_corners_of_the_first():
    ops = spatial(MODEL, tensor=4, batch=4).lists[0]
    place = {op.name: number for number, op in enumerate(ops)}
    for first, then in (("halo conv3 x", "halo conv3 y"),):
        assert ops[place[f"send {then}"]].after == (place[f"receive {first}"],)
        name = f"gradient of {then}", f"gradient of {first}"
        assert ops[place[f"send {name[1]}"]].after == (place[f"receive {name[0]}"],)


def test_neighbours_differ_in_one_half():
    met = match_calls(spatial(MODEL, tensor=4, data=2, batch=16))
    pairs = {
        tuple(sorted(group))
        for call, instances in zip(met.calls, met.instances, strict=True)
        if not call.kind
        for group in instances.groups.tolist()
    }
    each = {(0, 1), (2, 3), (0, 2), (1, 3)}
    assert pairs == each | {(a + 4, b + 4) for a, b in each}


@pytest.mark.parametrize("strategy", ["replicated", "sharded", "overlapped", "overlapped_sharded"])
def test_everybody_meets_whatever_the_axes(strategy):
    for tensor, data, accumulate in product((1, 2, 4), (1, 2, 3, 16), (1, 2)):
        program = spatial(
            MODEL,
            tensor=tensor,
            data=data,
            batch=2 * data * accumulate,
            accumulate=accumulate,
            strategy=strategy,
        )
        check(program)
        match_calls(program)
        assert program.axes == {"tensor": tensor, "data": data}
        flops = sum(op.flops for op in ops_of(program, Compute))
        expected = 2 * data * accumulate * MODEL.flops_per_token() / program.ranks
        assert flops == pytest.approx(expected)
        sums = [op for op in ops_of(program, Collective) if op.name.startswith("all_reduce")]
        assert not sums or program.ranks > 1


def test_a_sharded_strategy_updates_a_share_and_gathers_it_before_the_next_forward():
    ops = spatial(MODEL, tensor=4, data=2, batch=16, strategy="overlapped_sharded").lists[0]
    updates = {
        op.name: op.nbytes for op in ops if isinstance(op, Compute) and op.phase is Phase.UPDATE
    }
    assert updates["update conv5"] == 28 * 3539456 // 8
    assert updates["update dense"] == 28 * (1_050_737 + 1) // 2
    forward = {op.name: op for op in ops if op.name.startswith("forward")}
    waits = {ops[place].name for place in forward["forward conv3"].after if place < 0}
    assert waits == {"all_gather conv3"}
    waits = {ops[place].name for place in forward["forward dense1"].after if place < 0}
    assert waits == {"all_gather dense"}
    plain = spatial(MODEL, tensor=4, data=2, batch=16, strategy="sharded").lists[0]
    scattered = [op.group for op in plain if op.name.startswith("reduce_scatter along")]
    assert scattered == [("data",), ("tensor", "data")]
    assert plain[-1].name == "parameters"
    assert len(plain[-1].after) == 2


def test_the_original_sends_four_and_two_times_as_much():
    """Without the corners, which it does not have, and for its 8 samples."""
    ours = [
        layer.inputs * layer.side * layer.side // 2 * SAMPLES for layer in MODEL.convolutions[1:]
    ]
    sends = [op.nbytes // ELEMENT for op in compat("cosmoflow", 4).lists[0] if isinstance(op, Send)]
    forward, backward = sends[:8:2], sends[8::2]
    assert forward == [4 * count for count in ours]
    assert backward == [2 * count for count in reversed(ours)]
    # faces of what the convolution before leaves unpooled, and gradients of its own outputs
    before = MODEL.convolutions[:-1]
    assert forward == [c.outputs * c.side * c.side // 2 * SAMPLES for c in before]
    after = MODEL.convolutions[:0:-1]
    assert backward == [c.outputs * c.side * c.side // 2 * SAMPLES for c in after]


def test_messages_are_in_the_precision_of_the_activations():
    half = spatial(MODEL, tensor=4, batch=4, dtype="bf16")
    full = spatial(MODEL, tensor=4, batch=4)
    for one, other in zip(ops_of(half, Send), ops_of(full, Send), strict=True):
        assert 2 * one.nbytes == other.nbytes
    assert calls(half, "all_reduce") == calls(full, "all_reduce")


def test_four_ranks_are_simulated_faster_than_one():
    cluster = cluster_named("dgx-h100")
    steps = [
        float(simulate(spatial(MODEL, tensor=n, batch=8), cluster).step_s[-1]) for n in (1, 2, 4)
    ]
    assert steps == sorted(steps, reverse=True)
    assert np.isfinite(steps).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tensor": 3}, "3 tensor ranks cannot share the volumes of cosmoflow.*choose 1, 2 or 4"),
        ({"tensor": 8}, "choose 1, 2 or 4"),
        ({"data": 3, "batch": 8}, "batch of 8 does not divide among 3 replicas.*is 6 or 9"),
        ({"data": 8, "batch": 2}, "does is 8"),
        ({"data": 0}, "number of replicas is 0"),
        ({"batch": 0}, "number of volumes is 0"),
        (
            {"strategy": "server"},
            "server is of ranks that hold the same.*choose replicated, sharded",
        ),
        ({"strategy": "ring"}, "no strategy 'ring'"),
        ({"dtype": "fp12"}, "no dtype 'fp12'"),
    ],
)
def test_what_cannot_be_split_is_refused(wrong, message):
    asked = {"tensor": 4, "data": 1, "batch": 8} | wrong
    with pytest.raises(UsageError, match=message):
        spatial(MODEL, **asked)


def test_a_volume_whose_pooling_would_cross_the_cut_is_not_cut():
    small = cosmoflow("small", side=64)
    assert [layer.side for layer in small.convolutions] == [64, 32, 16, 8, 4]
    spatial(small, tensor=4, batch=1)
    with pytest.raises(UsageError, match=r"4 tensor ranks cannot share .*: choose 1$"):
        spatial(cosmoflow("tiny", side=32), tensor=4, batch=1)
