from steptime.measure.tune import Contest, select


def contests(**times):
    """Contests at 1 KiB, 4 KiB, 16 KiB …; a list of times for each name."""
    rows = zip(*times.values(), strict=True)
    return [
        Contest(1024 * 4**i, dict(zip(times, row, strict=True)), wrong=0)
        for i, row in enumerate(rows)
    ]


def test_each_range_goes_to_its_fastest_and_ends_half_way():
    found = contests(ring=[9, 8, 2, 1], flat=[1, 2, 8, 9])
    assert str(select("all_reduce", found)) == "flat:0-8KiB;ring:8KiB-max"


def test_algorithms_as_good_as_each_other_do_not_alternate():
    found = contests(ring=[1.00, 1.02, 1.00, 1.02], flat=[1.02, 1.00, 1.02, 1.00])
    assert str(select("all_reduce", found)) in ("ring:0-max", "flat:0-max")


def test_a_single_outlier_does_change_when_it_is_large():
    found = contests(ring=[1, 5, 1], flat=[2, 1, 2])
    assert str(select("all_reduce", found)) == "ring:0-2KiB;flat:2KiB-8KiB;ring:8KiB-max"


def test_one_size_alone_is_for_all():
    assert str(select("broadcast", contests(flat=[2.0], binomial=[1.0]))) == "binomial:0-max"
