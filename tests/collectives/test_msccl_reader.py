"""MSCCL programs read back: our own, and some as MSCCL's tools write them."""

import pytest

from steptime.collectives import all_algorithms, prove, schedule
from steptime.collectives.export import msccl_xml
from steptime.collectives.lookup import find_algorithm, find_algorithms
from steptime.collectives.price import price
from steptime.errors import UsageError

EXPORTED = [a for a in all_algorithms() if a.collective.name != "barrier"]

# A ring of fused steps, one thread block a GPU, as msccl-tools makes it of allreduce_ring.py.
FUSED = """<algo name="ring" nchannels="1" nchunksperloop="3" proto="Simple" ngpus="3"
 coll="allreduce" inplace="1">
{}
</algo>"""
GPU = """<gpu id="{rank}" i_chunks="3" o_chunks="0" s_chunks="0">
<tb id="0" send="{to}" recv="{of}" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="{a}" dstbuf="i" dstoff="{a}" cnt="1" depid="-1" deps="-1"
 hasdep="0"/>
<step s="1" type="rrs" srcbuf="i" srcoff="{b}" dstbuf="i" dstoff="{b}" cnt="1" depid="-1" deps="-1"
 hasdep="0"/>
<step s="2" type="rrcs" srcbuf="i" srcoff="{c}" dstbuf="i" dstoff="{c}" cnt="1" depid="-1"
 deps="-1" hasdep="0"/>
<step s="3" type="rcs" srcbuf="i" srcoff="{a}" dstbuf="i" dstoff="{a}" cnt="1" depid="-1" deps="-1"
 hasdep="0"/>
<step s="4" type="r" srcbuf="i" srcoff="{b}" dstbuf="i" dstoff="{b}" cnt="1" depid="-1" deps="-1"
 hasdep="0"/>
</tb>
</gpu>"""


def fused():
    """Chunk a leaves rank a; b and c are those that come from the ranks before it."""
    gpus = (
        GPU.format(rank=r, to=(r + 1) % 3, of=(r - 1) % 3, a=r, b=(r - 1) % 3, c=(r - 2) % 3)
        for r in range(3)
    )
    return FUSED.format("\n".join(gpus))


@pytest.mark.parametrize("algorithm", EXPORTED, ids=lambda a: f"{a.collective.name}-{a.name}")
@pytest.mark.parametrize("ranks", [1, 3, 4, 8])
def test_what_is_written_is_read_as_the_same_traffic(tmp_path, algorithm, ranks):
    if not algorithm.serves(ranks):
        pytest.skip("it does not serve so many ranks")
    made = schedule(algorithm, ranks)
    name = f"{algorithm.collective.name}_{ranks}.xml"
    (tmp_path / name).write_text(msccl_xml(made))
    read = find_algorithm(algorithm.collective.name, str(tmp_path / name))
    assert [count for count in range(1, 10) if read.serves(count)] == [ranks]
    for root in {0, ranks - 1} if algorithm.collective.rooted else {0}:
        assert prove(schedule(read, ranks, root=root)).ok
    before, after = (price(one, 1 << 20) for one in (made, schedule(read, ranks)))
    assert (before.bytes_sent == after.bytes_sent).all()
    assert (before.bytes_reduced == after.bytes_reduced).all()


def test_steps_that_receive_and_send_at_once_are_two_rounds(tmp_path):
    (tmp_path / "fused.xml").write_text(fused())
    (read,) = find_algorithms(str(tmp_path / "fused.xml"))
    made = schedule(read, 3)
    assert (read.name, prove(made).ok) == ("fused", True)
    assert price(made, 3).bytes_sent.tolist() == [4, 4, 4]
    # What a rank adds up and passes on is in no chunk of its own until the result comes round.
    assert made.scratch == 1


def test_a_copy_of_a_chunk_to_where_it_is_takes_no_round(tmp_path):
    step = '<step s="0" type="s"'
    words = 'srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
    (tmp_path / "plain.xml").write_text(fused())
    (tmp_path / "copied.xml").write_text(
        fused().replace(step, f'<step s="5" type="cpy" {words}\n{step}')
    )
    plain, copied = (
        [
            found.tolist()
            for found in schedule(find_algorithms(str(tmp_path / name))[0], 3).generate()
        ]
        for name in ("plain.xml", "copied.xml")
    )
    assert copied == plain


def test_a_program_that_sums_wrongly_is_found_out(tmp_path):
    text = fused().replace('type="rrcs"', 'type="rcs"', 1)
    (tmp_path / "wrong.xml").write_text(text)
    (read,) = find_algorithms(str(tmp_path / "wrong.xml"))
    assert "lacks the contribution of" in prove(schedule(read, 3)).findings[0].what


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("<algo", "<algorithm", "it is no XML ("),
        ('coll="allreduce"', 'coll="allreduc"', "of the collective 'allreduc': did you mean allr"),
        ('inplace="1"', 'inplace="0"', "works out of place, and all_reduce is in place here"),
        ('type="rcs"', 'type="copy"', "has the type 'copy', which MSCCL has not"),
        ('type="r"', 'type="nop"', "nobody receives what step 3 of thread block 0 on GPU 2 sends"),
        ('type="s"', 'type="nop"', "waits for what never comes"),
        ('srcbuf="i"', 'srcbuf="x"', "has the srcbuf 'x': it must be i, o or s"),
        ('cnt="1"', 'cnt="2"', "receives 1 chunks and is sent 2"),
        ('ngpus="3"', 'ngpus="three"', "<algo> has the ngpus 'three': it must be a whole number"),
        ("<algo", "<!DOCTYPE a><algo", "declares a document type"),
    ],
)
def test_what_is_no_such_program_is_refused(tmp_path, before, after, sentence):
    path = tmp_path / "a.xml"
    path.write_text(fused().replace(before, after, 1))
    with pytest.raises(UsageError) as refusal:
        find_algorithms(str(path))
    assert sentence in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r"nowhere.xml: No such file"):
        find_algorithms("nowhere.xml")
